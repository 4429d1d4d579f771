"""A model that is made before the script sets its seed: the key of its initial weights is made before it."""

import pytest

from migrate.pipeline import convert
from migrate.source import parse

BODY = """\
net = nn.Linear(3, 2)
print(net(torch.ones(2, 3)).shape)
torch.manual_seed(0)
print(torch.randn(2, 3).shape)
"""
IMPORTS = "import torch\nimport torch.nn as nn\n\n\n"
MAIN = "def main():\n" + "".join(f"    {line}\n" for line in BODY.splitlines()) + "\n\nmain()\n"


@pytest.mark.parametrize("body", [BODY, MAIN])
def test_the_key_is_there(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    conversion = convert(parse("early.py", IMPORTS + body))
    assert not conversion.report.diagnostics
    exec(conversion.text, {"__name__": __name__})
    assert capsys.readouterr().out == "(2, 2)\n(2, 3)\n"

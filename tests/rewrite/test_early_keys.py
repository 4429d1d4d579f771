"""Keys are made before what needs them: models before the seed is set, and functions that are used as values."""

import runpy
from pathlib import Path

import pytest

from migrate.files.project import read_project
from migrate.files.source import parse
from migrate.pipeline import convert, convert_project

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


NOISY = "import torch\n\n\ndef noisy(x):\n    return x + torch.rand(2)\n\n\n"


@pytest.mark.parametrize("way", ["{'noisy': noisy}['noisy']", "[noisy][0]", "(noisy if ways else torch.sin)"])
def test_what_draws_and_is_used_as_a_value_is_refused(way: str) -> None:
    found = convert(parse("ways.py", f"{NOISY}ways = 1\nway = {way}\nprint(way(torch.zeros(2)))\n")).report.diagnostics
    assert [one.code for one in found] == ["MIG404"]


def test_what_another_file_uses_as_a_value_draws_with_the_key_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use = "import torch\nimport noise\n\nways = {'noisy': noise.noisy}\n"
    use += "for way in (noise.noisy, ways['noisy']):\n    print(way(torch.zeros(2)).shape)\n"
    for name, text in {
        "noise.py": f"{NOISY}if __name__ == '__main__':\n    noisy(torch.ones(2))\n",
        "use.py": use,
    }.items():
        (tmp_path / name).write_text(text)
    conversion = convert_project(read_project([tmp_path / "use.py"]))
    assert not conversion.report.diagnostics
    for output in conversion.outputs:
        (tmp_path / output.member.place).write_bytes(output.data)
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_path(str(tmp_path / "use.py"))
    assert capsys.readouterr().out == "(2,)\n(2,)\n"

"""Example inputs for `model.init`."""

from __future__ import annotations

from migrate.pipeline import convert
from migrate.source import parse


def test_an_example_that_doubles_at_each_turn_is_refused() -> None:
    """Written out, what the model is called with has 3**7 factors."""
    lines = "".join(f"    a{i + 1} = a{i} * a{i} + a{i}\n" for i in range(7))
    source = "import torch\nimport torch.nn as nn\n\nmodel = nn.Sequential(nn.Linear(3, 1))\n\n\n"
    source += f"def run(a0):\n{lines}    return model(a7)\n\n\nprint(run(torch.ones(2, 3)))\n"
    conversion = convert(parse("x.py", source))
    assert [found.message for found in conversion.report.diagnostics if found.code == "MIG402"] == [
        "the example would be too long: what it is made of is used many times over"
    ]
    assert len(conversion.text) < 3_000

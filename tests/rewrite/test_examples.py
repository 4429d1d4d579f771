"""Example inputs for `model.init`."""

from __future__ import annotations

from migrate.pipeline import convert
from migrate.source import parse

HEAD = "import torch\nimport torch.nn as nn\n\nblock = nn.Linear(3, 3)\nout = nn.Linear(3, 1)\n"


def test_an_example_that_doubles_at_each_turn_ends() -> None:
    """Each turn uses the value before it three times: written out it would have 3**12 terms."""
    source = HEAD + "\n\ndef run(h):\n    model = nn.Sequential(out)\n    for i in range(4):\n        h = h * h + h\n"
    text = convert(parse("x.py", source + "    return model(h)\n\n\nprint(run(torch.ones(2, 3)))\n")).text
    assert len(text) < 10_000

"""Initial values of weights that a layer computes of others: torch forgets them, and the output leaves them out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import torch
import torch.nn as nn
from torch.nn.utils import FROM


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = NORM(nn.Conv1d(3, 5, 2))
        self.fill()

    def fill(self):
        FILLED

    def forward(self, x):
        return self.conv(x)


model = Block()
print(model(torch.ones(2, 3, 4)))
"""
NORMS = [
    ("weight_norm", "weight_norm"),
    ("spectral_norm", "spectral_norm"),
    ("parametrizations", "parametrizations.weight_norm"),
]


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.parametrize(("module", "norm"), NORMS)
@pytest.mark.parametrize("filled", ["self.conv.weight.data.fill_(3)", "nn.init.constant_(self.conv.weight, 3.0)"])
def test_torch_forgets_them(module: str, norm: str, filled: str) -> None:
    source = SCRIPT.replace("FROM", module).replace("NORM", norm).replace("FILLED", filled)
    made = convert(parse("x.py", source))
    assert [found.code for found in made.report.diagnostics] == ["MIG513"]
    assert "constant" not in made.text
    conv = eval(f"nn.utils.{norm}(nn.Conv1d(3, 5, 2))").eval()
    x = torch.ones(2, 3, 4)
    before = conv(x)
    exec(filled.replace("self.", ""), {"conv": conv, "nn": nn})
    assert torch.equal(before, conv(x))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FILLED", "self.conv.bias.data.fill_(3)"),
        ("self.fill()", "self.conv.weight.data.fill_(3)\n        self.conv = weight_norm(self.conv)"),
    ],
)
def test_what_lasts_is_not_left_out(old: str, new: str) -> None:
    layer = "nn.Conv1d(3, 5, 2)" if "fill()" in old else "weight_norm(nn.Conv1d(3, 5, 2))"
    source = SCRIPT.replace("NORM(nn.Conv1d(3, 5, 2))", layer).replace("FROM", "weight_norm")
    source = source.replace(old, new).replace("FILLED", "pass")
    made = convert(parse("x.py", source))
    assert "MIG513" not in {found.code for found in made.report.diagnostics}
    assert "constant" in made.text or made.report.exit_code == 1

"""Initial weights by a loop over all parameters: layers that a comprehension makes take them as others do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn


class Heads(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])

    def forward(self, x):
        return sum(linear(x) for linear in self.linears)


class M(nn.Module):
    def __init__(self, depth=2, widths=(4, 6, 8)):
        super().__init__()
        self.rows = nn.ModuleList(
            [nn.Sequential(nn.Linear(a, b), nn.Tanh(), nn.Linear(b, b)) for a, b in zip(widths, widths[1:])]
        )
        self.stack = nn.Sequential(*[nn.Linear(8, 8) for _ in range(depth)])
        self.convs = nn.ModuleList(nn.Conv1d(8, 8, k, padding=k // 2) for k in (1, 3))
        self.heads = Heads(8, depth)
        LOOP

    def forward(self, x):
        for row in self.rows:
            x = row(x)
        x = torch.stack([self.heads(self.stack(x))] * 3, dim=2)
        return sum(conv(x) for conv in self.convs)


model = M()
y = model(torch.ones(2, 4))
"""
BY_NAME = """for name, p in self.named_parameters():
            if "rows" in name and name.endswith("2.weight"):
                nn.init.constant_(p, 0.3)
            elif p.dim() > 1:
                nn.init.constant_(p, 0.02)
            else:
                nn.init.ones_(p)"""
BRANCHES = """for p in self.parameters():
            if p.dim() > 1:
                nn.init.constant_(p, 0.05)
            else:
                nn.init.zeros_(p)"""


@pytest.mark.parametrize("loop", [BY_NAME, BRANCHES])
def test_the_same_outputs(loop: str) -> None:
    source = SCRIPT.replace("LOOP", loop)
    expected = rewritten.executed(source)["y"].detach().numpy()
    found = np.asarray(rewritten.executed(rewritten.clean(source).text)["y"])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.abs(expected).min() > 0

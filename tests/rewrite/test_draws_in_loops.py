"""What a loop inside a loss draws differs from turn to turn."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
import torch.nn.functional as F


def draw(n):
    return torch.randn(n, 4)


model = nn.Linear(4, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ones = torch.ones(64, 4)
shown = []
for step in range(2):
    loss = 0.0
    LOOP
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown.append(loss.item())
"""
LOOPS = (
    """for sign in (1.0, -1.0):
        loss = loss + sign * model(torch.randn(8, 4)).sum()""",
    """for sign in (1.0, -1.0):
        loss = loss + sign * model(draw(8)).sum()""",
    """for sign in (1.0, -1.0):
        for _ in range(2):
            x = torch.randn(8, 4)
            loss = loss + sign * (model(x) + model(draw(8))).sum()""",
    """for sign in (1.0, -1.0):
        loss = loss + sign * model(F.dropout(ones)).sum()""",
    """terms = [sign * model(torch.randn(8, 4)).sum() for sign in (1.0, -1.0)]
    loss = terms[0] + terms[1]""",
    "loss = sum(sign * model(torch.randn(8, 4)).sum() for sign in (1.0, -1.0))",
)


@pytest.mark.parametrize("loop", LOOPS)
def test_turns_have_keys_of_their_own(loop: str) -> None:
    made = rewritten.clean(SCRIPT.replace("LOOP", loop))
    shown = rewritten.executed(made.text)["shown"]
    assert all(abs(value) > 1e-3 for value in shown) and shown[0] != shown[1]


def test_turns_that_are_not_counted_have_no_place_for_their_keys() -> None:
    source = SCRIPT.replace("LOOP", "loss = sum(model(torch.randn(8, 4)).sum() for i in range(2) if i >= 0)")
    (found, *_) = rewritten.conversion(source).report.diagnostics
    assert found.code == "MIG302" and "no place for its key" in found.message

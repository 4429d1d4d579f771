"""`.item()` in what jit traces: of a number that a function only returns, and what is refused."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Linear(4, 3)
nn.init.constant_(model.weight, 0.5)
nn.init.constant_(model.bias, 0.25)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def told(pred, gold, pad):
    known = gold.ne(pad)
    right = pred.argmax(1).eq(gold).masked_select(known).sum().item()
    count = known.sum().item()
    loss = F.cross_entropy(pred, gold, ignore_index=pad, reduction="sum")
    largest = pred.max().item()
    BODY
    return loss, {"right": right, "count": count}, largest


x, gold = torch.arange(20.0).view(5, 4) / 9, torch.tensor([0, 1, 2, 2, 1])
counts = 0
for step in range(3):
    optimizer.zero_grad()
    loss, found, largest = told(model(x), gold, 1)
    loss.backward()
    optimizer.step()
    counts += found["count"]
losses = [loss.item(), counts, found["right"] / found["count"], largest, f"{found['count']:d}"]
"""


def test_what_is_only_returned_stays_an_array() -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("BODY", "pass"))
    assert ours["losses"][1:] == [*theirs["losses"][1:3], pytest.approx(theirs["losses"][3], rel=1e-6), "3"]
    assert ours["losses"][0] == pytest.approx(theirs["losses"][0], rel=1e-6)


@pytest.mark.parametrize(
    "body", ["pred = pred[:count]", "loss = loss + torch.zeros(count).sum()", "loss = loss * [1, 2, 3, 4, 5, 6][count]"]
)
def test_what_python_goes_by_is_refused(body: str) -> None:
    made = rewritten.conversion(SCRIPT.replace("BODY", body))
    assert "MIG307" in {found.code for found in made.report.diagnostics}

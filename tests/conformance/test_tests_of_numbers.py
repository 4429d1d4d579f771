"""Tests of numbers that differ from turn to turn: a step is compiled once for each answer, not for each number."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.rewritten import clean, conversion, executed

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

losses = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(x)


def criterion(pred, y, step):
    if step > 5:
        return F.l1_loss(pred, y)
    return F.mse_loss(pred, y)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.linspace(0, 2, 24).reshape(6, 4), torch.ones(6, 2)
step = 0
for epoch in range(3):
    for i in range(4):
        pred = net(x)
        loss = F.mse_loss(pred, y)
        LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        losses.append(loss.item())
"""
# how the loss goes on, and how many programs it takes
FORMS = {
    "a branch": ("if step > 5:\n            loss = loss + 0.1 * pred.abs().mean()", 2),
    "branches": (
        "if step < 3:\n            loss = 2 * loss\n        elif epoch == 1:\n            loss = loss + pred.mean()\n"
        "        else:\n            loss = loss / 2",
        4,  # also for epoch 1 while step is below 3: never, so three of four are met
    ),
    "an expression": ("loss = loss * (2.0 if epoch >= 1 and not i == 2 else 1.0)", 2),
    "every other turn": ("if i % 2 == 0:\n            loss = loss + 0.1 * pred.abs().mean()", 2),
    "reckoned": ("loss = loss * (2.0 if 4 * epoch + i - 1 > 5 and i // 2 == 1 else 1.0)", 2),
    "two of one name": ("loss = loss * (2.0 if step > 3 else 1.0) * (3.0 if step > 8 else 1.0)", 4),
}


@pytest.mark.parametrize("name", FORMS)
def test_losses_are_torchs_by_few_programs(name: str) -> None:
    text, most = FORMS[name]
    source = HEAD.replace("LOSS", text)
    theirs, ours = executed(source), executed(clean(source).text)
    assert not conversion(source).report.diagnostics
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # twelve steps in float32
    assert 1 < ours["train_step"]._cache_size() <= most


@pytest.mark.parametrize(
    "text",
    [
        "loss = loss * (2.0 if 12 / (step + 1) > 3 else 1.0)",  # may not have a value
        "loss = loss * (2.0 if 12 % (step + 1) > 3 else 1.0)",
        "step = step + 0\n        loss = loss * (2.0 if step > 3 else 1.0)",  # the loss binds it itself
        "for step in range(4):\n            loss = loss * (2.0 if step > 2 else 1.0)",  # so does its own loop
        "loss = loss * sum([2.0 if step > 2 else 1.0 for step in range(4)])",  # another variable of that name
    ],
)
def test_others_stay_where_they_are(text: str) -> None:
    source = HEAD.replace("LOSS", text)
    theirs, ours = executed(source), executed(conversion(source).text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert "step_above" not in conversion(source).text


def test_a_function_that_tests_the_number_is_told() -> None:
    source = HEAD.replace("LOSS", "loss = loss + criterion(pred, y, step)")
    report = conversion(source).report
    assert [found.code for found in report.diagnostics] == ["MIG514"] and report.exit_code == 0
    assert "decides by step" in report.diagnostics[0].message
    given = source.replace("+ criterion(pred, y, step)", "+ criterion(pred, y, 4)")
    assert not conversion(given).report.diagnostics

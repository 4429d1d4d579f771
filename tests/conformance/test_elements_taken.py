"""What a loss takes of lists by a number that is another one in each turn: jit is given it, and no list to look it up
in."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn.functional as F
from torch import nn


class Data:
    def __init__(self):
        self.xs = [torch.full((2, 3), float(i)) for i in range(3)]


net = nn.Linear(3, 2)
for p in net.parameters():
    nn.init.constant_(p, 0.3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
xs, rates, order, data = [torch.full((2, 3), float(i)) for i in range(3)], [0.5, 1.0, 2.0], [2, 0, 1], Data()
ys = [torch.tensor([0, 1]), torch.tensor([1, 1]), torch.tensor([1, 0])]
pairs = list(zip(xs, ys))


def scaled(h, rate):
    return h * rate if rate > 0.7 else h - rate


losses = []
for i in range(3):
    LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
LOSSES = [
    "loss = F.cross_entropy(net(xs[i]), ys[i])",
    "out = net(xs[i])\n    loss = rates[i] * F.cross_entropy(out, ys[i])",
    "loss = F.cross_entropy(net(xs[2 - i]), ys[(i + 1) % 3])",
    "loss = F.cross_entropy(net(pairs[i][0]), pairs[i][1])",
    "k = order[i]\n    loss = F.cross_entropy(net(xs[k]), ys[k])",
    "loss = F.cross_entropy(net(xs[order[i]]), ys[0])",
    "loss = F.cross_entropy(net(data.xs[i]), ys[i])",
    "loss = (net(torch.full((2, 3), float(i))) ** 2).mean()",
    "loss = scaled(net(xs[1]), float(i)).square().mean()",
    "loss = sum(net(x).square().mean() * rates[i] for x in xs)",
]


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_torchs(loss: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("LOSS", loss))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5, atol=1e-7)


def test_a_step_of_a_function_that_is_given_the_number() -> None:
    text = SCRIPT.partition("losses = []")[0]
    text += """def step(i):
    loss = F.cross_entropy(net(xs[i]), ys[i])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


losses = []
for i in range(3):
    value = step(i)
    losses.append(value)
"""
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize("row", ["torch.full((2, 3), float(k)) for k in range(3)", "x + k for x in xs for k in (1,)"])
def test_an_example_keeps_the_names_of_comprehensions(row: str) -> None:
    text = SCRIPT.partition("losses = []")[0]
    text += f"rows, shapes = [{row}], []\n"
    text += "for i in range(3):\n    k = order[i]\n    shapes.append(tuple(net(rows[k]).shape))\n"
    theirs, ours = rewritten.both(text)
    assert ours["shapes"] == theirs["shapes"]

"""Weights that a loop changes by what they are, or that a script changes ahead of its training."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
for p in net.parameters():
    nn.init.constant_(p, 0.3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses, x = [], torch.linspace(-1, 1, 12).reshape(4, 3)
for step in range(3):
    loss = ((net(x) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        CHANGE
    losses.append(loss.item())
weight = net[0].weight.tolist()
"""
CHANGES = [
    "net[0].weight[0] *= 0.5",
    "net[0].weight[:, 1] += torch.tensor([0.1, 0.2])",
    "net[0].weight[1, 2] -= 0.3",
    "net[0].weight /= 2",
    "net[0].weight.data -= 0.1 * net[0].weight",
    "net[2].bias += 0.5",
    "net[0].weight[1].mul_(0.8)",
    "net[0].weight.data[1].sub_(torch.tensor([0.1, 0.2, 0.3]))",
    "net[0].weight[1, 0].clamp_(0.0, 0.2)",
    "net[0].weight[0].zero_()",
    "net[0].weight /= net[0].weight.norm(dim=1, keepdim=True)",
]


@pytest.mark.parametrize("change", CHANGES)
def test_losses_and_weights_are_torchs(change: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("CHANGE", change))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    np.testing.assert_allclose(ours["weight"], theirs["weight"], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("change", [*CHANGES[:6], "net[0].weight[1].mul_(2)"])
def test_ahead_of_the_training_it_is_told(change: str) -> None:
    """Weights that come from elsewhere, of a checkpoint of torch's, may have the change already."""
    text = "import torch\nfrom torch import nn\n\nnet = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))\n"
    made = rewritten.conversion(f"{text}with torch.no_grad():\n    {change}\nprint(net(torch.ones(1, 3)))\n")
    assert [one.code for one in made.report.diagnostics] == ["MIG204"]
    assert "is changed after its module was made" in made.report.diagnostics[0].message


@pytest.mark.parametrize("change", ["net[0].weight[0] **= 2", "net[0].weight[0] //= 2"])
def test_other_operators_are_told(change: str) -> None:
    assert rewritten.conversion(SCRIPT.replace("CHANGE", change)).report.exit_code == 1


def test_steps_by_hand() -> None:
    by_hand = """loss = ((net(x) - 1) ** 2).mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        net[0].weight -= 0.1 * net[0].weight.grad
        net[2].bias -= 0.1 * net[2].bias.grad
"""
    start, _, rest = SCRIPT.partition("loss = ")
    text = f"{start}{by_hand}    losses.append{rest.partition('losses.append')[2]}"
    theirs, ours = rewritten.both(text.replace("optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n", ""))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)

"""Weights of parts by number, `model[0].weight`, as scripts read them: in print, and in a penalty of the loss."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.row = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 1)})

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.heads["a"](self.row(x))


net, row = Net(), nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
nn.init.constant_(row[0].weight, 0.25)
y = net(torch.ones(1, 4)), row(torch.ones(1, 4))
shown = READ
"""


@pytest.mark.parametrize(
    "read",
    [
        "tuple(row[0].weight.shape), row[-1].bias.shape[0], row[2].weight.numel()",
        "row[0].weight.sum().item(), row[0].weight.data[0, 1].item()",
        "tuple(net.row[0].weight.shape), tuple(net.blocks[1].bias.shape), tuple(net.heads['a'].weight.shape)",
        "net.row[-1].weight.data.shape[0], len(net.blocks[-1].weight)",
    ],
)
def test_what_is_read(read: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("READ", read))
    assert ours["shown"] == theirs["shown"]


@pytest.mark.parametrize("read", ["row[1].weight", "row[5].weight", "row[y].weight", "net.blocks[len(row) - 2].weight"])
def test_what_is_no_weight_or_of_no_known_number_needs_a_person(read: str) -> None:
    assert rewritten.conversion(SCRIPT.replace("READ", read)).report.exit_code == 1


PENALTY = """import torch
import torch.nn as nn

model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
for p in model.parameters():
    nn.init.constant_(p, 0.3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for turn in range(3):
    x = torch.linspace(-1, 1, 8).view(2, 4)
    loss = model(x).pow(2).mean() + 0.1 * model[0].weight.abs().sum() + model[-1].weight.pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += [loss.item(), model[2].weight[0, 0].item()]
"""


def test_a_penalty_has_its_gradient() -> None:
    theirs, ours = rewritten.both(PENALTY)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, three steps

"""The gradient of one weight of a model, `net.fc.weight.grad`, where a script reads it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.fc = nn.Linear(8, 3)
        for p in self.parameters():
            nn.init.constant_(p, 0.02)

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


x = torch.arange(32.0).reshape(2, 1, 4, 4) / 10
net = Net()
shown = []
"""
LOOP = """optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(3):
    optimizer.zero_grad()
    loss = net(x).square().sum()
    loss.backward()
    BEFORE
    optimizer.step()
    AFTER
"""
ASKED = "shown += [net.conv.weight.grad[0, 0, 1].tolist(), net.fc.weight.grad.shape[0], net.fc.bias.grad.sum().item()]"
READ = {
    "between the pass and the step": LOOP.replace("BEFORE", ASKED).replace("AFTER", "pass"),
    "after the step": LOOP.replace("AFTER", ASKED).replace("BEFORE", "pass"),
    "without an optimizer": "net(x).square().sum().backward()\n" + ASKED,
    "summed over two passes": "for i in range(2):\n    net(x).square().sum().backward()\n" + ASKED,
    "before there is one": "shown.append(net.conv.bias.grad is None)\nnet(x).sum().backward()\n"
    "shown.append(net.conv.bias.grad is None)",
}


def flat(values: object) -> list[float]:
    return [float(one) for one in np.hstack([np.ravel(each) for each in values])]  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", READ.values(), ids=READ)
def test_it_is_torchs(code: str) -> None:
    theirs, ours = rewritten.both(f"{NET}{code}\n")
    np.testing.assert_allclose(flat(ours["shown"]), flat(theirs["shown"]), rtol=1e-4)  # sums over images, thrice


def test_of_a_model_of_which_a_part_is_frozen_it_is_told() -> None:
    code = "for p in net.conv.parameters():\n    p.requires_grad = False\n" + READ["after the step"]
    made = rewritten.conversion(f"{NET}{code}\n")
    assert "MIG401" in [one.code for one in made.report.diagnostics]

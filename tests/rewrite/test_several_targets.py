"""`a, b = nn.Linear(4, 8), nn.Linear(8, 2)`: layers that are made in one line, in a script and in a constructor."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn

actor, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
for net in (actor, critic):
    for p in net.parameters():
        nn.init.constant_(p, 0.1)
opt, opt2 = torch.optim.SGD(actor.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.2)
x, y = torch.linspace(-1, 1, 32).reshape(8, 4), torch.linspace(0, 1, 8).reshape(8, 1)
losses = []
for step in range(3):
    loss = ((critic(x) - y) ** 2).mean()
    opt2.zero_grad()
    loss.backward()
    opt2.step()
    loss2 = -(actor(x) * y).mean()
    opt.zero_grad()
    loss2.backward()
    opt.step()
    losses += [loss.item(), loss2.item()]
"""
MODULE = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)
        for layer in (self.a, self.b):
            nn.init.constant_(layer.weight, 0.3)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


net = Net()
found = net(torch.ones(2, 4)).tolist()
"""


def test_models_of_a_script() -> None:
    theirs, ours = rewritten.both(SCRIPT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def test_layers_of_a_class() -> None:
    theirs, ours = rewritten.both(MODULE)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-6)
    assert "self.b = nn.Dense(2, kernel_init=nn.initializers.constant(0.3))" in rewritten.clean(MODULE).text

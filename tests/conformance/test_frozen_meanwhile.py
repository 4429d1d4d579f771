"""Models that a branch of a training step freezes for an update of another one, and frees again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.a = nn.Linear(inputs, outputs)
        nn.init.constant_(self.a.weight, 0.3)
        nn.init.constant_(self.a.bias, 0.1)

    def forward(self, x):
        return torch.tanh(self.a(x))


actor, critic = Net(3, 2), Net(2, 1)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.1)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.1)
x = torch.linspace(-2, 3, 24).reshape(8, 3)
losses = []
for step in range(6):
    loss = (critic(x[:, :2]) - x[:, 2:]).square().mean()
    critic_optimizer.zero_grad()
    loss.backward()
    critic_optimizer.step()
    losses.append(loss.item())
    if step % 2 == 0:
        # the critic stays as it is
        for p in critic.parameters():
            p.requires_grad = False
        actor_loss = -critic(actor(x)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        losses.append(actor_loss.item())
        # and goes on
        for p in critic.parameters():
            p.requires_grad = True
"""


def test_what_is_switched_on_again_loses_nothing() -> None:
    theirs, ours = rewritten.both(TEXT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        # and goes on\n", "        if step > 2:\n            break\n"),
        ("step % 2 == 0", "step == 4"),
    ],
)
def test_what_may_stay_frozen_is_told_as_it_runs(old: str, new: str) -> None:
    assert old in TEXT
    theirs, ours = rewritten.both(TEXT.replace(old, new))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)

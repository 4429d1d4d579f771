"""Two losses of what one method returned, with a step between their backward passes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, m, start):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Linear(4, m)
        for layer in (self.a, self.b):
            nn.init.constant_(layer.weight, start)
            nn.init.constant_(layer.bias, 0.1)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class PPO:
    def __init__(self):
        self.actor, self.critic = Net(2, 0.3), Net(1, 0.2)
        self.actor_optim = torch.optim.SGD(self.actor.parameters(), lr=0.1)
        self.critic_optim = torch.optim.SGD(self.critic.parameters(), lr=0.1)
        self.losses = []

    def acted(self, obs):
        return self.actor(obs).detach() * 0.5

    def rollout(self, obs):
        kept = []
        for row in obs:
            kept.append(self.acted(row).sum().item())
        returns = torch.tensor(kept)
        return obs, returns

    def evaluate(self, obs, acts):
        V = self.critic(obs).squeeze()
        off = self.actor(obs) - acts
        return V, -off.square().sum(1)

    def learn(self, obs, acts):
        obs, returns = self.rollout(obs)
        V, old = self.evaluate(obs, acts)
        A, old = returns - V.detach(), old.detach()
        for _ in range(4):
            V, log_probs = self.evaluate(obs, acts)
            ratios = torch.exp(log_probs - old)
            actor_loss = -torch.min(ratios * A, torch.clamp(ratios, 0.8, 1.2) * A).mean()
            critic_loss = (V - returns).square().mean()
            self.actor_optim.zero_grad()
            actor_loss.backward(retain_graph=True)
            self.actor_optim.step()
            self.critic_optim.zero_grad()
            critic_loss.backward()
            self.critic_optim.step()
            self.losses += [actor_loss.item(), critic_loss.item()]


ppo = PPO()
ppo.learn(torch.arange(12.0).reshape(4, 3) / 10, torch.arange(8.0).reshape(4, 2) / 10)
losses = ppo.losses
"""


def test_a_result_that_the_step_has_not_changed() -> None:
    theirs, ours = rewritten.both(TEXT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace("V = self.critic(obs).squeeze()", "V = self.critic(obs).squeeze() + self.actor(obs).mean(1)"),
        TEXT.replace("V = self.critic(obs)", "net = self.critic\n        V = net(obs)"),  # a name for a model
        TEXT.replace(
            "        return V, -off", "        if off is None:\n            return off, V\n        return V, -off"
        ),
    ],
)
def test_others_are_refused(changed: str) -> None:
    assert "whose inputs have changed" in rewritten.conversion(changed).report.as_text()

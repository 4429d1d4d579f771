"""Critics of reinforcement learning: an input for each of their first layers, and the weights of another one."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

CRITICS = """\
import torch
import torch.nn as nn


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_state = nn.Linear(3, 4)
        self.of_action = nn.Linear(2, 4)
        self.out = nn.Linear(8, 1)

    def forward(self, state, action):
        return self.out(torch.cat([torch.relu(self.of_state(state)), torch.relu(self.of_action(action))], dim=1))


class Memory:
    def __init__(self):
        self.rows = []

    def put(self, row):
        self.rows.append(row)

    def sample(self, n):
        states, actions, rewards = [], [], []
        for s, a, r in self.rows[:n]:
            states.append(s)
            actions.append(a)
            rewards.append([r])
        return torch.tensor(states), torch.tensor(actions), torch.tensor(rewards)


def train(q, q_target, memory, optimizer):
    for _ in range(2):
        s, a, r = memory.sample(4)
        loss = (q(s, a) - (r + 0.9 * q_target(s, a)).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


def main():
    memory = Memory()
    q, q_target = Q(), Q()
    for p in q.parameters():
        nn.init.constant_(p, 0.1)
    q_target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=0.01)
    for i in range(6):
        memory.put(([0.1 * i, 1.0, -0.2 * i], [0.5, 0.1 * i], float(i)))
    train(q, q_target, memory, optimizer)


main()
"""


def test_inputs_with_a_layer_each_tell_their_examples(capsys: pytest.CaptureFixture[str]) -> None:
    rewritten.executed(CRITICS)
    theirs = [float(line) for line in capsys.readouterr().out.split()]
    assert len(theirs) == 2
    written = rewritten.clean(CRITICS).text
    assert "init(subkey, jnp.zeros((1, 3)), jnp.zeros((1, 2)))" in written
    rewritten.executed(written)
    assert [float(line) for line in capsys.readouterr().out.split()] == pytest.approx(theirs, rel=1e-5)

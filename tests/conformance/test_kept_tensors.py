"""Tensors that the host keeps in lists until `torch.tensor` makes one of them: each is the one number that it has."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import trained

KEEPING = """import random

import numpy as np
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 1)

    def forward(self, x):
        return torch.tanh(self.mean(x))


class Memory:
    def __init__(self):
        self.kept = []

    def keep(self, turn):
        self.kept.append(turn)

    def batch(self):
        states, actions, rewards = [], [], []
        for turn in TURNS:
            state, action, reward = turn
            states.append(state)
            actions.append([action])
            rewards.append([reward])
        self.kept = []
        return torch.tensor(np.array(states)), ACTIONS, torch.tensor(rewards, dtype=torch.float)


random.seed(3)
losses = []
model = Net()
memory = Memory()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
states = torch.linspace(-2, 3, 24).reshape(8, 3)
for step in range(4):
    for state in states.numpy():
        with torch.no_grad():
            action = model(torch.from_numpy(state)) + 0.25
        memory.keep((state, action, action.item() ** 2))
    state, action, reward = memory.batch()
    loss = ((model(state) - action) * reward).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    losses.append(action.shape)
"""


KNOWN, UNKNOWN = "self.kept", "random.sample(self.kept, len(self.kept))"


@pytest.mark.parametrize(
    ("turns", "actions", "written"),
    [
        (KNOWN, "torch.tensor(actions)", "jnp.reshape(x, ()), actions)"),
        (UNKNOWN, "torch.tensor(actions)", "with_numbers(actions)"),
        (UNKNOWN, "torch.tensor(actions, dtype=torch.float)", "with_numbers(actions)"),
        (UNKNOWN, "torch.FloatTensor(actions)", "with_numbers(actions)"),
    ],
)
def test_tensors_of_one_element_are_numbers(turns: str, actions: str, written: str) -> None:
    text = KEEPING.replace("TURNS", turns).replace("ACTIONS", actions)
    theirs, ours = trained(text)
    assert ours["losses"][1::2] == [tuple(shape) for shape in theirs["losses"][1::2]]
    np.testing.assert_allclose(ours["losses"][::2], theirs["losses"][::2], rtol=1e-5)  # float32, four steps
    assert written in rewritten.clean(text).text


def test_lists_of_numbers_are_left_alone() -> None:
    text = KEEPING.replace("TURNS", UNKNOWN).replace("ACTIONS", "torch.tensor(actions)")
    text = text.replace("memory.keep((state, action,", "memory.keep((state, action.item(),")
    assert "with_numbers" not in rewritten.clean(text).text

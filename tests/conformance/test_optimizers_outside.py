"""Optimizers that modules make of their own weights, in both frameworks. Weights start as constants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, shape, lr=0.05, momentum=0.9):
        super().__init__()
        self.rate = lr
        self.fc = nn.Linear(*shape, 2)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, -0.1)
        self.optim = torch.optim.SGD(self.parameters(), self.rate, momentum=momentum)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optim, 2, gamma=0.5)
        self.criterion = nn.MSELoss()
        self.to("cuda" if torch.cuda.is_available() else "cpu")

    def forward(self, x):
        return torch.tanh(self.fc(x))


x, y = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 8).reshape(4, 2)
losses = []
"""
OF_A_VARIABLE = """
net = Net([3], momentum=0.8)
for step in range(6):
    net.optim.zero_grad()
    loss = net.criterion(net(x), y)
    loss.backward()
    net.optim.step()
    net.schedule.step()
    losses.append(loss.item())
"""
OF_AN_ATTRIBUTE = """

class Agent:
    def __init__(self, lr):
        self.q, self.target = Net((3,), lr), Net((3,), lr)

    def learn(self, x, y):
        q = self.q(x)
        with torch.no_grad():
            target = self.target(x)
        loss = self.q.criterion(q, y + 0.1 * target)
        self.q.optim.zero_grad()
        loss.backward()
        self.q.optim.step()
        return loss.item()


agent = Agent(0.1)
for step in range(6):
    losses.append(agent.learn(x, y))
"""


@pytest.mark.parametrize("body", [OF_A_VARIABLE, OF_AN_ATTRIBUTE])
def test_losses_are_torchs(body: str, float64: None) -> None:
    """The second calls a variable as it calls the model that it takes it from."""
    theirs, ours = rewritten.both(NET + body)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("net.optim.step()", "other = net\n    other.optim.step()", "self.parameters()"),
        ("net = Net([3], momentum=0.8)", "nets = [Net([3])]\nnet = nets[0]", "self.parameters()"),
        ("        return torch", "        self.optim.zero_grad()\n        return torch", "self.parameters()"),
        ("        self.criterion", "        self.late = nn.Linear(2, 2)\n        self.criterion", "self.parameters()"),
    ],
)
def test_what_is_refused(old: str, new: str, said: str) -> None:
    """An optimizer that is reached by another name, of a module without one, used by the module itself, or
    made before its last layer."""
    text = NET + OF_A_VARIABLE
    assert old in text
    report = rewritten.conversion(text.replace(old, new)).report
    assert report.exit_code and said in report.as_text()


def test_the_one_size_of_a_shape_is_said_to_be_one() -> None:
    made = rewritten.clean(NET + OF_A_VARIABLE).text
    assert "(in_features,) = self.shape" in made


EMPTY_AT_FIRST = """
import random
import numpy as np


class Memory:
    def __init__(self):
        self.states, self.count = np.zeros((10, 3), dtype=np.float32), 0

    def sample(self, n):
        rows = np.random.choice(self.count, n)
        return self.states[rows], rows


class Learner:
    def __init__(self):
        self.memory = Memory()
        self.net = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def learn(self):
        states, _ = self.memory.sample(4)
        loss = self.net(torch.tensor(states)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


learner = Learner()
learner.memory.count = 5
losses.append(learner.learn())
"""


def test_an_example_draws_nothing_from_a_buffer_that_is_still_empty() -> None:
    made = rewritten.clean(NET.partition("class Net")[0] + NET.rpartition("\n\n\n")[2] + EMPTY_AT_FIRST).text
    assert "self.memory.states[:1]" in made.split(".init(")[1]
    rewritten.executed(made)

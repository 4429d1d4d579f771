"""Examples of models that are given what an environment holds once it has begun, which it has not where weights are
made."""

import numpy as np

from tests.conformance import rewritten

SCRIPT = """
import numpy as np
import torch
import torch.nn as nn


class Bits:
    def __init__(self, n):
        self.n = n

    def reset(self):
        self.state = np.random.randint(2, size=self.n)
        self.target = np.random.randint(2, size=self.n)
        return self.state, self.target

    def step(self, action):
        self.state[action] = 1 - self.state[action]
        return np.copy(self.state)


class Values(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Linear(2 * n, 4)

    def forward(self, state, goal):
        return self.body(torch.cat([state, goal], 1))


def chosen(model, state, goal):
    state = torch.FloatTensor(state).unsqueeze(0)
    goal = torch.FloatTensor(goal).unsqueeze(0)
    return model(state, goal).max(1)[1].item()


np.random.seed(0)
env = Bits(3)
model = Values(3)
drawn, actions = [], []
for turn in range(3):
    state, goal = env.reset()
    drawn.append([state.tolist(), goal.tolist()])
    actions.append(chosen(model, state, goal))
"""


def test_weights_are_made_of_the_sizes_of_what_it_will_hold() -> None:
    theirs, ours = rewritten.both(SCRIPT)
    assert ours["drawn"] == theirs["drawn"], "an example draws nothing"
    assert np.shape(ours["params"]["body"]["kernel"]) == (6, 4) and len(ours["actions"]) == 3


ONLY_BEGINS = """
import numpy as np
import torch
import torch.nn as nn


class Bits:
    def __init__(self, n):
        self.n = n
        self.turns = []

    def reset(self):
        self.turns.append(len(self.turns))
        self.target = np.random.randint(2, size=self.n)
        return np.zeros(self.n), self.target


class Values(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 4)

    def forward(self, state, goal):
        return self.body(torch.cat([state, goal], 1))


env = Bits(3)
np.random.seed(0)
model = Values()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
drawn = []
for turn in range(3):
    state, goal = env.reset()
    drawn.append(goal.tolist())
    state = torch.FloatTensor(state).unsqueeze(0)
    goal = torch.FloatTensor(goal).unsqueeze(0)
    loss = (model(state, goal) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
turns = env.turns
"""


def test_an_example_that_begins_an_environment_leaves_it_and_the_generators_as_they_were() -> None:
    theirs, ours = rewritten.both(ONLY_BEGINS)
    assert ours["drawn"] == theirs["drawn"]
    assert ours["turns"] == theirs["turns"] == [0, 1, 2]

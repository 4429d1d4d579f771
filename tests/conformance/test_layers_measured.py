"""Agents as courses write them: initial values that go by the width of a layer, told by a function that is given it; a
critic that joins what a layer has made with the actions. Nothing is at hand to take an example of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SOURCE = """import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


DEFINED


class Critic(nn.Module):
    def __init__(self, states, actions, units=16):
        super().__init__()
        self.first = nn.Linear(states, units)
        self.second = nn.Linear(units + actions, 8)
        self.third = nn.Linear(8, 1)
        self.reset_parameters()

    def reset_parameters(self):
        self.first.weight.data.uniform_(*hidden_init(self.first))
        self.second.weight.data.uniform_(*hidden_init(self.second))
        self.third.weight.data.uniform_(-3e-3, 3e-3)

    def forward(self, state, action):
        hidden = F.relu(self.first(state))
        x = JOINED
        x = F.relu(self.second(x))
        return self.third(x)


class Agent:
    def __init__(self, states, actions):
        self.critic = Critic(states, actions)
        self.rows = []

    def value(self):
        states, actions = zip(*self.rows)
        return self.critic(torch.tensor(np.array(states)).float(), torch.tensor(np.array(actions)).float())


agent = Agent(5, 2)
agent.rows.append((np.ones(5), np.ones(2)))
value = agent.value()
"""
DEFINED = {
    "kept under a name": "fan = layer.weight.data.size()[0]\n    lim = 1.0 / np.sqrt(fan)\n    return (-lim, lim)",
    "asked in place": "return -1.0 / np.sqrt(layer.weight.size(0)), 1.0 / np.sqrt(layer.weight.size(0))",
    "by its shape": "lim = layer.weight.data.shape[0] ** -0.5\n    return -lim, lim",
    "the other axis": "fan = layer.weight.shape[1]\n    return -1.0 / fan, 1.0 / fan",
}
LIMITS = {"the other axis": (1 / 5, 1 / 18)}


@pytest.mark.parametrize("joined", ["torch.cat((hidden, action), dim=1)", "torch.cat([action, hidden], 1)"])
@pytest.mark.parametrize("form", DEFINED)
def test_initial_values_go_by_the_width(form: str, joined: str) -> None:
    source = SOURCE.replace("DEFINED", f"def hidden_init(layer):\n    {DEFINED[form]}").replace("JOINED", joined)
    theirs, ours = rewritten.both(source)
    assert ours["value"].shape == theirs["value"].shape == (1, 1)
    params = ours["agent"].params
    first, second = LIMITS.get(form, (16**-0.5, 8**-0.5))
    for leaf, limit in ((params["first"]["kernel"], first), (params["second"]["kernel"], second)):
        largest = float(np.abs(leaf).max())
        assert 0.8 * limit < largest <= limit  # of 80 draws and more, one is beyond four fifths of the limit
    assert {leaf: params[leaf]["kernel"].shape[0] for leaf in params} == {"first": 5, "second": 18, "third": 8}


def test_a_function_that_asks_for_more_keeps_its_layer() -> None:
    more = "fan = layer.weight.data.size()[0]\n    print(layer)\n    return -1.0 / fan, 1.0 / fan"
    source = SOURCE.replace("DEFINED", f"def hidden_init(layer):\n    {more}")
    report = rewritten.conversion(source.replace("JOINED", "torch.cat((hidden, action), dim=1)")).report
    assert report.exit_code == 1

"""Losses that are the one element of a tensor whose rank is not written out: torch differentiates these as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.a = nn.Linear(3, outputs)
        nn.init.constant_(self.a.weight, 0.3)
        nn.init.constant_(self.a.bias, 0.1)

    def forward(self, x):
        return self.a(x)


class Agent:
    def __init__(self):
        self.episode, self.losses = [], []
        self.actor, self.critic = Net(2), Net(1)
        self.optimizer = torch.optim.SGD(self.actor.parameters(), lr=0.1)
        self.value_optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def learn(self, s, a, r):
        s = torch.unsqueeze(torch.tensor(s), 0)
        value = self.critic(s).flatten()
        target = torch.tensor(r)
        log_pi = torch.log_softmax(self.actor(s), dim=1)[0, a]
        actor_loss = -(target - value).detach() * log_pi
        self.optimizer.zero_grad()
        actor_loss.backward()
        self.optimizer.step()
        critic_loss = (target - value) ** 2
        self.value_optimizer.zero_grad()
        critic_loss.backward()
        self.value_optimizer.step()
        self.losses += [actor_loss.item(), critic_loss.item()]


agent = Agent()
for step in range(4):
    agent.learn([0.5, -0.2, 0.1 * step], step % 2, 1.5)
losses = agent.losses
"""


def test_what_has_some_axes_is_no_scalar() -> None:
    theirs, ours = rewritten.both(TEXT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


SMALL = """import torch
from torch import nn

model = nn.Linear(2, 1)
nn.init.constant_(model.weight, 0.3)
nn.init.constant_(model.bias, 0.1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
BEFORE
for step in range(3):
    LOSS
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
"""


def small(loss: str, before: str = "") -> str:
    """A model of one layer, trained by the loss that some statements make."""
    return SMALL.replace("BEFORE", before).replace("LOSS", loss.replace("\n", "\n    "))


@pytest.mark.parametrize("loss", ["torch.mm(x, rows)", "-(rows.mm(x)).exp() * label", "torch.bmm(x[None], x[None])"])
def test_products_of_matrices_have_axes(loss: str) -> None:
    text = small(
        f"x = model(torch.ones(1, 2))\nloss = {loss}", "rows, label = torch.ones(1, 1), torch.tensor([2.0])[0]"
    )
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize("rows", ["0", "slice(1)"])
def test_one_that_may_be_a_scalar_or_not(rows: str) -> None:
    chosen = f"def choose(names):\n    return {{'rows': {rows}}}[names[-1]]\n\n\nrows = choose(['rows'])"
    text = small("loss = (model(torch.ones(1, 2)) ** 2).flatten()[rows]", f"\n\n{chosen}")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize("loss", ["x.flatten() * unknown(x)", "-(unknown(x) + x.flatten()).exp()"])
def test_more_than_one_element_has_no_gradient_in_either(loss: str) -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\ndef unknown(x):\n    return x.index_select(0, torch.tensor([1]))\n\n\n"
        "model = nn.Linear(2, 1)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"x = model(torch.ones(3, 2))\nloss = {loss}\nloss.backward()\nopt.step()\n"
    )
    with pytest.raises(RuntimeError, match="scalar outputs"):
        rewritten.executed(text)
    with pytest.raises((TypeError, ValueError)):
        rewritten.executed(rewritten.clean(text).text)


KEPT = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)
        nn.init.constant_(self.a.weight, 0.3)
        nn.init.constant_(self.a.bias, 0.1)

    def forward(self, x):
        return F.log_softmax(self.a(x), dim=1)


class Agent:
    def __init__(self):
        self.policy = Policy()
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.1)
        self.states, self.losses = [], []

    def store(self, state):
        self.states.append(state)

    def learn(self):
        for t in range(len(self.states)):
            s = torch.unsqueeze(torch.tensor(self.states[t]), 0)
            loss = -self.policy(s).flatten()[t % 2]
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
        self.states = []


agent = Agent()
for number in range(4):
    agent.store([0.5, -0.1, 0.2 * number])
agent.learn()
losses = agent.losses
"""


def test_sums_that_start_at_a_number_are_scalars() -> None:
    """Nothing is squeezed of the most ordinary loss that there is."""
    text = small("loss = 0\nfor row in torch.ones(4, 2):\n    loss = loss + (model(row) ** 2).mean()")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert "squeeze" not in rewritten.clean(text).text


def test_an_example_takes_nothing_from_a_list_that_is_filled_later() -> None:
    theirs, ours = rewritten.both(KEPT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def test_what_the_constructor_fills_is_an_example() -> None:
    filled = "self.states, self.losses = [], []\n        self.states.append([0.1, 0.2, 0.3])"
    before = "        self.policy = Policy()\n"
    text = KEPT.replace("        self.states, self.losses = [], []\n", "")
    text = text.replace(before, f"        {filled}\n{before}")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert "self.states[0]" in rewritten.clean(text).text.split(".init(")[1].split("optax")[0]

"""Tensors that an object of the script's trains: a temperature with its optimizer; copies of weights."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

AGENT = """import torch


class Agent:
    def __init__(self, lr, tuned):
        self.alpha = torch.tensor(0.2)
        self.tuned = tuned
        if tuned:
            self.log_alpha = torch.zeros(1, requires_grad=True)
            self.optimizer = torch.optim.SGD([self.log_alpha], lr=lr, momentum=0.5)

    def temperature(self):
        return self.log_alpha.exp()

    def update(self, x):
        log_alpha = x.mean()
        if self.tuned:
            loss = {loss}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            {after}
            self.alpha = self.log_alpha.exp()
        else:
            loss = torch.tensor(0.0)
        return loss.item()


agent, other = Agent(0.1, True), Agent(0.2, True)
told = []
for step in range(4):
    told += [agent.update(torch.ones(4, 1) * step), agent.alpha.item(), agent.log_alpha.item()]
    told += [other.update(torch.ones(4, 1)), other.alpha.item()]
"""
LOSS = "-(self.log_alpha * (x + 2.0).detach()).mean() + log_alpha"


HALVED = "with torch.no_grad():\n                self.log_alpha *= 0.5"


@pytest.mark.parametrize(
    ("loss", "after"),
    [
        (LOSS, "pass"),
        (LOSS, HALVED),
        ("(self.temperature() * (x + 2.0) - self.log_alpha).mean()", "pass"),
        ("(self.log_alpha - log_alpha).square().sum()", HALVED),
    ],
)
def test_it_is_trained_as_by_torch(loss: str, after: str) -> None:
    text = AGENT.format(loss=loss, after=after)
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["told"], theirs["told"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("after", "outside", "said"),
    [
        ("self.log_alpha.data.clamp_(-0.1, 0.1)", "", "self.log_alpha.data is changed in place"),
        ("self.log_alpha = torch.zeros(1, requires_grad=True)", "", "MIG"),
        ("pass", "agent.log_alpha = torch.ones(1, requires_grad=True)\n", "agent.log_alpha is bound anew"),
        ("pass", "with torch.no_grad():\n    agent.log_alpha.fill_(1.0)\n", "agent.log_alpha is changed in place"),
    ],
)
def test_what_the_optimizer_would_not_see_is_refused(after: str, outside: str, said: str) -> None:
    text = AGENT.format(loss=LOSS, after=after).replace("told = []\n", f"told = []\n{outside}")
    assert said in rewritten.conversion(text).report.as_text()


BOUND_ANEW = """import torch

x = torch.ones(4, 1)
told = []
for image in range(2):
    w = torch.full((1,), 0.5 + image, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    {again}
    for step in range(3):
        loss = (w * x - 1.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told.append(loss.item())
"""


def test_a_tensor_that_is_bound_anew_is_not_the_one_of_its_optimizer() -> None:
    text = BOUND_ANEW.format(again="pass")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["told"], theirs["told"], rtol=1e-6, atol=1e-9)
    made = rewritten.conversion(BOUND_ANEW.format(again="w = torch.zeros(1, requires_grad=True)"))
    assert "w is bound anew, and optimizer has the tensor that it was" in made.report.as_text()


COPIED = """import torch
import torch.nn as nn


def hard_update(target, source):
    for target_param, param in zip(target.parameters(), source.parameters()):
        target_param.data.copy_(param.data)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


net = Net()
target = Net()
hard_update(target, net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(4, 3)
told = []
for step in range(3):
    loss = (net(x) - target(x).detach() - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    told.append(loss.item())
"""


def test_copied_weights_have_memory_of_their_own() -> None:
    """A step that gives away the memory of weights which another model shares is an error when run."""
    made = rewritten.clean(COPIED)
    assert "jax.tree.map(jnp.copy, " in made.text
    ours = rewritten.executed(made.text)
    np.testing.assert_allclose(ours["told"][0], 1, rtol=1e-6)  # both start alike
    assert ours["told"][0] > ours["told"][1] > ours["told"][2]


OF_ITSELF = """import torch


class Scale:
    def __init__(self, moved):
        self.z = torch.arange(3.0)
        if moved:
            self.z = self.z.cpu()

    def grow(self):
        self.z = self.z.cpu() + 1
        self.z = self.z.to(torch.float64)

    def spread(self):
        return self.z.std().item()


scale = Scale(True)
scale.grow()
told = [scale.spread(), *scale.z.tolist()]
"""


def test_what_is_made_of_itself_stays_a_tensor() -> None:
    made = rewritten.clean(OF_ITSELF).text
    assert rewritten.executed(made)["told"] == rewritten.executed(OF_ITSELF)["told"]
    assert "if moved" not in made

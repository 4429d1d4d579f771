"""Losses of which the gradient goes through what an earlier step has drawn: the later step draws the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(2, 3), nn.Dropout(0.5)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, x):
        return self.drop(self.fc(x))

    def evaluate(self, x):
        mean = self.fc(x)
        normal = Normal(mean, mean.exp())
        z = normal.sample()
        return mean * z, normal.log_prob(z)


g, d = Generator(), nn.Linear(3, 1)
g_optimizer = torch.optim.SGD(g.parameters(), lr=0.1)
d_optimizer = torch.optim.SGD(d.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 8).reshape(4, 2)
seen, again = [], []
for step in range(3):
    FAKE
    d_loss = d(fake.detach()).square().mean()
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    g_loss = (fake * torch.tensor([1.0, 2.0, 3.0])).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
    seen.append((fake.detach() * torch.tensor([1.0, 2.0, 3.0])).mean().item())
    again.append(g_loss.item())
"""
FAKES = {
    "noise": "fake = g.fc(torch.randn(4, 2))",
    "dropout": "fake = g(x)",
    "a sample": "fake, log_prob = g.evaluate(x)",
    "two draws": "fake = g.fc(x + torch.randn(4, 2)) * torch.rand(4, 1)",
    "two statements": "noise = torch.randn(4, 2)\n    fake = g(x + noise) + torch.randn(4, 3)",
}


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_both_steps_see_the_same_draws(fake: str) -> None:
    ours = rewritten.executed(rewritten.clean(SCRIPT.replace("FAKE", fake)).text)
    np.testing.assert_allclose(ours["again"], ours["seen"], rtol=1e-5)  # the same graph compiled twice
    assert len(set(ours["seen"])) == 3  # each turn draws anew


def test_the_key_of_the_first_step_is_kept_for_the_second() -> None:
    made = rewritten.clean(SCRIPT.replace("FAKE", FAKES["dropout"])).text
    assert "key, fake_key = jax.random.split(key)" in made
    assert made.count("fake_key)") == 2


@pytest.mark.parametrize("fake", [FAKES["dropout"], "fake = g.fc(x)"])
def test_what_one_step_computes_twice_is_read_behind_it(fake: str) -> None:
    """Both losses of one step go through it."""
    first, _, last = SCRIPT.replace("FAKE", fake).partition("    d_optimizer.step()\n")
    text = first + last.replace("    g_optimizer.step()\n", "    d_optimizer.step()\n    g_optimizer.step()\n")
    ours = rewritten.executed(rewritten.clean(text).text)
    np.testing.assert_allclose(ours["again"], ours["seen"], rtol=1e-5)  # the same graph compiled twice


def test_what_a_loop_draws_is_told() -> None:
    fake = "fake = 0\n    for _ in range(2):\n        fake = fake + g.fc(torch.randn(4, 2))"
    made = rewritten.conversion(SCRIPT.replace("FAKE", fake))
    assert [one.code for one in made.report.diagnostics] == ["MIG401"]
    assert "random draws of an earlier step" in made.report.diagnostics[0].message

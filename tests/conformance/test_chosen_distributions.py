"""A distribution that is one of several classes, as the script runs: what both have is asked of it."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from tests.conformance.rewritten import both, conversion

POLICY = """
import torch
from torch import nn
from torch.distributions import Categorical, Independent, MultivariateNormal, Normal

class M(nn.Module):
    def __init__(self, size, continuous):
        super().__init__()
        self.size = size
        self.continuous = continuous
        self.fc = nn.Linear(4, size)

    def told(self, x):
        if self.continuous:
            dist = CONTINUOUS
        else:
            dist = Categorical(logits=self.fc(x))
        return dist

    def act(self, x):
        dist = self.told(x)
        action = dist.sample()
        return action.detach(), dist.log_prob(action).detach()

    def evaluate(self, x, action):
        dist = self.told(x)
        return dist.log_prob(action), dist.entropy()

    def forward(self, x, action):
        return self.evaluate(x, action)

def drawn(x, continuous, eps):
    dist = Normal(x, eps) if continuous else Categorical(logits=x)
    return DRAW
"""
CONTINUOUS = {
    "normal": "Normal(self.fc(x), torch.full((self.size,), 0.5))",
    "correlated": "MultivariateNormal(self.fc(x), torch.diag(torch.full((self.size,), 0.3)))",
    "independent": "Independent(Normal(self.fc(x), torch.full((self.size,), 0.5)), 1)",
}


def policy(continuous: str, draw: str = "dist.sample() * x.sum()") -> str:
    return POLICY.replace("CONTINUOUS", CONTINUOUS[continuous]).replace("DRAW", draw)


@pytest.mark.parametrize("continuous", CONTINUOUS)
@pytest.mark.parametrize("chosen", [True, False])
def test_probabilities_and_entropies_are_torchs(continuous: str, chosen: bool) -> None:
    theirs, ours = both(policy(continuous))
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    model = theirs["M"](3, chosen)
    action = model.act(torch.from_numpy(x))[0]
    flax = ours["M"](3, chosen)
    kernel, bias = model.fc.weight.detach().numpy().T, model.fc.bias.detach().numpy()
    variables = {"params": {"fc": {"kernel": kernel, "bias": bias}}}
    expected = model(torch.from_numpy(x), action)
    made = flax.apply(variables, x, action.numpy())
    for one, other in zip(made, expected, strict=True):  # a few float32 roundings of sums of at most four numbers
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-5, atol=1e-6)
    sampled, _ = flax.apply(variables, x, method="act", rngs={"sample": jax.random.key(0)})
    assert sampled.shape == tuple(action.shape)
    assert np.issubdtype(sampled.dtype, np.floating) is chosen


def test_no_gradient_goes_through_samples() -> None:
    _, ours = both(policy("normal"))
    x = np.ones((2, 3), np.float32)
    given = jax.grad(lambda x: ours["drawn"](x, True, 0.5, key=jax.random.key(0)).sum())(x)
    whole = ours["drawn"](x, True, 0.5, key=jax.random.key(0)).sum() / x.sum()
    np.testing.assert_allclose(given, np.full_like(x, whole), rtol=1e-5)  # of x.sum() alone: sums of six numbers


def test_a_draw_with_a_gradient_is_refused_where_one_class_has_none() -> None:
    report = conversion(policy("normal", "dist.rsample()")).report
    assert any("rsample: one of its classes has none in torch" in found.message for found in report.diagnostics)

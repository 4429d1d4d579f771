"""What a constructor draws is drawn with the weights, or refused: Flax runs the constructor at each call."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same

MODULE = """import random

import numpy as np
import torch
import torch.nn as nn


class M(nn.Module):
    def __init__(self, n=6, sigma=10.0):
        super().__init__()
        {made}
        self.fc = nn.Linear(4, n)

    def draw(self):
        return torch.rand(4)

    def forward(self, x):
        return self.fc(x * self.w)
"""


def test_a_buffer_is_drawn_with_the_weights(float64: None) -> None:
    written = MODULE.format(made='self.register_buffer("w", torch.randn(4) * sigma)')
    assert_same(written, Sample("M()", (3, 4)))
    module = rewritten.executed(rewritten.clean(written).text)["M"]()
    one, other = (module.init(jax.random.key(seed), jnp.ones((3, 4))) for seed in (0, 1))
    assert (one["batch_stats"]["w"] != other["batch_stats"]["w"]).all()
    assert (module.apply(one, jnp.ones((3, 4))) == module.apply(one, jnp.ones((3, 4)))).all()


def test_what_is_asked_for_its_shape_alone_may_be_drawn(float64: None) -> None:
    made = "self.first = nn.Linear(4, 4); n = self.first(torch.randn(1, 4)).shape[1]; self.w = torch.ones(n)"
    assert_same(MODULE.format(made=made), Sample("M()", (3, 4)))


@pytest.mark.parametrize(
    "made",
    [
        "self.w = torch.randn(4)",
        "self.w = np.random.permutation(4)",
        "self.w = random.random()",
        "self.w = self.draw()",
        'w = torch.rand(4); w = w / w.sum(); self.register_buffer("w", w)',
        'self.register_buffer("w", torch.empty(4)); self.w.copy_(self.draw())',
    ],
)
def test_what_would_be_drawn_anew_is_refused(made: str) -> None:
    found = rewritten.conversion(MODULE.format(made=made)).report.as_text()
    assert "MIG201 self.w is drawn at random by the constructor" in found

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


CODEBOOK = """import torch
import torch.nn as nn


class M(nn.Module):
    def __init__(self, dim=4, n=6):
        super().__init__()
        embed = torch.randn(dim, n)
        self.register_buffer("embed", {start})
        self.register_buffer("average", embed.clone())
        self.register_buffer("count", torch.zeros(n))

    def forward(self, x):
        chosen = torch.nn.functional.one_hot((x @ self.embed).argmax(1), 6).type(x.dtype)
        out = chosen @ self.embed.t()
        if self.training:
            self.count.data.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
            self.average.data.mul_(0.9).add_(x.t() @ chosen, alpha=0.1)
            self.embed.data.copy_(self.average / (self.count + 1))
        return x + out.detach()
"""


def test_buffers_that_start_alike_are_drawn_once(float64: None) -> None:
    written = CODEBOOK.format(start="embed")
    assert_same(written, Sample("M()", (5, 4)))
    state = rewritten.executed(rewritten.clean(written).text)["M"]().init(jax.random.key(0), jnp.ones((5, 4)))
    embed, average = state["batch_stats"]["embed"], state["batch_stats"]["average"]
    assert jnp.ptp(embed) > 0
    assert (embed == average).all()


def test_a_buffer_that_starts_as_something_made_of_a_draw_is_refused() -> None:
    found = rewritten.conversion(CODEBOOK.format(start="embed / embed.norm()")).report.as_text()
    assert "MIG201 self.embed is drawn at random by the constructor" in found

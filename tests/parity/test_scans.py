"""The calls of modules in a scan are recorded as those of the loop that it stands for."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import axes_scan

from parity.scans_jax import Scans, of_first_turn


class Noted(nn.Module):
    """A layer that is called before, in and after a loop; `scans` counts its calls, `record` takes what they give."""

    scans: Any
    record: Any
    as_scan: bool

    def setup(self) -> None:
        self.dense = nn.Dense(3)

    def layer(self, x: Any) -> Any:
        y = jnp.tanh(self.dense(x))
        if not self.scans.idle:
            jax.debug.callback(self.scans.next_call("layer", self.record)(0), y)
        return y

    def __call__(self, h: Any, xs: Any) -> Any:
        h = self.layer(h)
        if self.as_scan:

            @partial(nn.scan, variable_broadcast="params", split_rngs={"params": False})
            def step(self: Any, h: Any, x: Any) -> Any:
                return self.layer(self.layer(h + x)), None

            h, _ = step(self, h, xs)
        else:
            for x in xs:
                h = self.layer(self.layer(h + x))
        return self.layer(h).sum()


def test_as_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes_scan, "scan", axes_scan.scan)  # put back afterwards
    monkeypatch.setattr(jax.lax, "scan", jax.lax.scan)
    recorded: list[dict[str, Any]] = [{}, {}]
    h, xs = jnp.ones(3), jnp.arange(12.0).reshape(4, 3) / 12
    params = Noted(Scans(), {}.setdefault, False).init(jax.random.key(0), h, xs)
    for as_scan, found in enumerate(recorded):
        scans = Scans()
        scans.install()
        gradient = jax.jit(jax.grad(Noted(scans, found.setdefault, bool(as_scan)).apply))
        for scale in (1, 2):  # what comes second is not kept
            gradient(params, h, scale * xs)
        jax.effects_barrier()
    loop, scan = recorded
    assert list(loop) == [f"layer|{number}|0" for number in range(10)]
    assert loop.keys() == scan.keys()
    for name, value in loop.items():
        np.testing.assert_array_max_ulp(np.asarray(value), np.asarray(scan[name]), 4)


def test_of_values_under_vmap_that_of_the_first_turn_is_recorded() -> None:
    """Callbacks for all of them would arrive in any order."""
    seen: list[np.ndarray] = []

    def turn(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda value: seen.append(np.asarray(value)), of_first_turn(x))
        return x**2

    rows = jnp.arange(12.0).reshape(4, 3)
    jax.grad(lambda x: jax.vmap(turn)(x).sum())(rows)
    jax.effects_barrier()
    assert [value.tolist() for value in seen] == [[0.0, 1.0, 2.0]]

"""Curves and origins, on recordings made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights
from parity import curves, divergence, tolerance
from parity.curves import Curve
from parity.divergence import Origin
from parity.ladder import Sides
from parity.record import Recording

MODEL = ModelWeights("Net", (Leaf("params/a/kernel", "a.weight", (Permute((1, 0)),)), Leaf("params/b/bias", "b.bias")))
MANIFEST = Manifest("train.py", "linen", (MODEL,))
STEPS = 8
NAMES = {"a.weight": "params/a/kernel", "b.bias": "params/b/bias"}


def run(jax: bool, shift: float = 0.0, at: int = 1, of: str = "") -> Recording:
    """A training run; from step `at` on the curves whose names start with `of` are off by the relative `shift`."""
    weights = {"Net|a.weight": np.ones((3, 4)), "Net|b.bias": np.ones(3)}
    if jax:
        weights = {"Net|params/a/kernel": np.ones((4, 3)), "Net|params/b/bias": np.ones(3)}
    recording = Recording(
        losses=[1.0] * STEPS, initial=weights, models=["Net"], gradients={1: weights}, states={1: weights}
    )
    keys = NAMES.values() if jax else NAMES
    for step in range(1, STEPS + 1):
        for name in ("gradient|Net", "distance|Net", *(f"distance|Net|{key}" for key in keys)):
            off = 1 + shift if step >= at and name.startswith(of) else 1.0
            recording.note_curve(name, step, off * (step - 1 if name.startswith("distance") else 1 / step))
    return recording


def drawn(ours: Recording, spread: float = 1e-6, runs: int = curves.RUNS) -> dict[str, Curve]:
    perturbed = tuple(run(False, spread) for _ in range(runs))
    return {curve.kind: curve for curve in curves.curves(Sides(run(False), ours, perturbed, MANIFEST))}


def test_a_port_within_the_envelope() -> None:
    found = drawn(run(True, 5e-5))
    assert list(found) == ["norm of the gradient", "distance of the weights"]
    assert all(curve.first is None and len(curve.points) == STEPS for curve in found.values())
    noise = [point.noise for point in found["norm of the gradient"].points]
    assert noise == pytest.approx([1e-6] * STEPS)  # as measured; the limit has a floor


@pytest.mark.parametrize(("shift", "outside"), [(9e-4, False), (11e-4, True)])
def test_the_envelope_is_ten_times_torchs_own_spread(shift: float, outside: bool) -> None:
    found = drawn(run(True, shift, of="gradient"), spread=1e-4)
    assert (found["norm of the gradient"].first is not None) is outside


def test_the_first_step_and_the_parameter_furthest_outside_are_named() -> None:
    ours = run(True, 1e-3, at=5, of="distance|Net")
    for step in range(5, STEPS + 1):
        ours.curves["distance|Net|params/b/bias"][str(step)] *= 1.2
    curve = drawn(ours)["distance of the weights"]
    assert curve.first is not None and curve.first.step == 5
    assert "at step 5" in curve.said and curve.said.endswith("furthest outside: Net.b.bias")


def test_where_torch_differs_from_itself_too_much_nothing_is_decided() -> None:
    limits = tolerance.curve_limits([1.0, 1.0], [[1.0, 1.1]], tolerance.GRADIENT_CURVE)
    assert [limit.decides for limit in limits] == [True, False] or not limits[0].decides


def test_norms_of_unnamed_gradients_are_not_compared() -> None:
    ours = run(True)
    del ours.gradients[1]["Net|params/b/bias"]
    assert list(drawn(ours)) == ["distance of the weights"]


def test_a_curve_keeps_the_first_value_of_a_step() -> None:
    recording = Recording()
    recording.note_curve("gradient|Net", 1, 2.0)
    recording.note_curve("gradient|Net", 1, 3.0)
    assert recording.curves == {"gradient|Net": {"1": 2.0}}


# --- the origin of a difference --------------------------------------------------------------------------------------

TAP = ("Net|norm|0", "Net|norm|0")


def probed(inputs: float, output: float) -> Origin:
    x, y = np.arange(1.0, 25.0).reshape(2, 3, 4), np.arange(2.0, 26.0).reshape(2, 3, 4)
    theirs = Recording(inputs={"0": x}, outputs={"Net|norm|0|0": y})
    ours = Recording(inputs={"0": np.moveaxis(x, 1, -1) * (1 + inputs)}, outputs={"Net|norm|0|0": y * (1 + output)})
    return divergence.origin("Net.norm", TAP, theirs, ours, 1e-9, 0.0, "Net.fc1")


def test_what_differs_on_torchs_inputs_was_made_here() -> None:
    origin = probed(inputs=0.0, output=1e-5)
    assert origin.here and "it originates in Net.norm" in str(origin)
    assert origin.local == pytest.approx(1e-5) and origin.inherited < 1e-12
    assert "recording changed nothing" in str(origin)


def test_what_agrees_on_torchs_inputs_came_in_with_its_own() -> None:
    origin = probed(inputs=1e-3, output=0.0)
    assert not origin.here and origin.inherited == pytest.approx(1e-3)
    assert "it came into Net.norm with its inputs, which differ by 1.0e-03" in str(origin)
    assert "the origin lies between Net.fc1 and Net.norm" in str(origin)


def test_the_block_around_a_layer() -> None:
    assert divergence.around(("Net|blocks.0.fc|2", "Net|blocks_0/fc|2")) == ("Net|blocks.0|0", "Net|blocks_0|0")
    assert divergence.around(("Net|fc|0", "Net|fc|0")) == ("Net||0", "Net||0")


def test_the_operation_whose_values_have_no_equal() -> None:
    x = np.arange(6.0)
    theirs = {"mul|net.py:3|1.0": 2 * x, "tanh|net.py:4|2.0": np.tanh(x)}
    ours = {
        "mul|jax.py:7|0": 2 * x[::-1],
        "reshape|jax.py:7|1": 2 * x,
        "logistic|jax.py:8|2": 1 / (1 + np.exp(-x)),
    }
    said = divergence.narrowed(theirs, ours, 1e-9)
    assert said == (
        "torch's tanh (net.py:4) has no equal in JAX, which after mul (jax.py:7) computes logistic (jax.py:8)"
    )
    assert divergence.narrowed(theirs, {**ours, "tanh|jax.py:9|3": np.tanh(x)}, 1e-9) == ""
    assert divergence.narrowed(theirs, {}, 1e-9) == ""

"""The rungs, on recordings made by hand."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest

from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights
from parity import ladder, tolerance
from parity.ladder import Sides, Verdict
from parity.measures import relative, relative_scalar
from parity.record import Recording

MODEL = ModelWeights("Net", (Leaf("params/a/kernel", "a.weight", (Permute((1, 0)),)), Leaf("params/b/bias", "b.bias")))
MANIFEST = Manifest("train.py", "linen", (MODEL,))


def _torch() -> Recording:
    random = np.random.RandomState(0)
    state = {"Net|a.weight": random.randn(3, 4), "Net|b.bias": random.randn(3)}
    return Recording(
        losses=[2.0, 1.5, 1.25],
        initial=state,
        models=["Net"],
        outputs={
            "Net|a|0|0": random.randn(2, 3, 5, 5),
            "Net|act|0|0": random.randn(2, 3),
            "Net||0|0": random.randn(2, 3),
        },
        gradients={1: {name: value * 0.1 for name, value in state.items()}},
        states={1: state, 2: {name: value * 0.9 for name, value in state.items()}},
    )


def _jax() -> Recording:
    torch = _torch()

    def flax(tensors: dict) -> dict:
        return {"Net|params/a/kernel": tensors["Net|a.weight"].T, "Net|params/b/bias": tensors["Net|b.bias"]}

    return Recording(
        losses=list(torch.losses),
        outputs={"Net|a|0|0": np.moveaxis(torch.outputs["Net|a|0|0"], 1, -1), "Net||0|0": torch.outputs["Net||0|0"]},
        gradients={1: flax(torch.gradients[1])},
        states={step: flax(state) for step, state in torch.states.items()},
    )


def _climb(jax: Recording, torch: Recording | None = None) -> list[ladder.Rung]:
    torch = torch or _torch()
    return ladder.climb(Sides(torch, jax, (copy.deepcopy(torch),), MANIFEST))


def _differing(rungs: list[ladder.Rung]) -> ladder.Rung:
    differing = [rung for rung in rungs if rung.verdict is Verdict.DIFFERS]
    assert len(differing) == 1
    assert all(rung.verdict is Verdict.NOT_REACHED for rung in rungs[rungs.index(differing[0]) + 1 :])
    return differing[0]


def test_equal_recordings_are_equal_on_every_rung() -> None:
    rungs = _climb(_jax())
    assert [rung.verdict for rung in rungs] == [Verdict.EQUAL] * 5
    assert [len(rung.rows) for rung in rungs] == [2, 1, 2, 2, 3]


def test_the_first_differing_output_is_named_with_the_layers_that_could_not_be_compared() -> None:
    jax = _jax()
    jax.outputs["Net||0|0"] = jax.outputs["Net||0|0"] * 1.001
    rung = _differing(_climb(jax))
    assert rung.code == "PAR101"
    assert rung.first.startswith("output of the model Net: relative drift 1.0e-03")
    assert rung.first.endswith("(after Net.act, not compared)")


def test_an_output_of_another_shape_differs() -> None:
    jax = _jax()
    jax.outputs["Net||0|0"] = jax.outputs["Net||0|0"][:, :2]
    assert "its shape is (2, 3) in torch and (2, 2) in JAX" in _differing(_climb(jax)).first


def test_the_rows_of_a_packed_sequence_are_a_padded_array_with_its_lengths() -> None:
    jax, torch = _jax(), _torch()
    padded, lengths = np.random.RandomState(0).randn(4, 3, 2), np.array([2, 4, 1])
    jax.outputs |= {"Net||0|0": padded, "Net||0|-1": lengths}
    torch.outputs["Net||0|0"] = np.concatenate([padded[0, [1, 0, 2]], padded[1, [1, 0]], padded[2:, 1]])
    assert [rung.verdict for rung in _climb(jax, torch)][:1] == [Verdict.EQUAL]
    torch.outputs["Net||0|0"][3] += 1
    assert _differing(_climb(jax, torch)).name == "outputs"


def test_an_inner_layer_of_another_layout_is_no_difference_where_the_model_agrees() -> None:
    jax = _jax()
    jax.outputs["Net|a|0|0"] = jax.outputs["Net|a|0|0"].swapaxes(1, 2)
    assert [rung.verdict for rung in _climb(jax)] == [Verdict.EQUAL] * 5


def test_a_loss() -> None:
    jax = _jax()
    jax.losses[0] *= 1 + 1e-5
    rung = _differing(_climb(jax))
    assert rung.code == "PAR102" and "2 in torch, 2.00002 in JAX" in rung.first


def test_a_gradient_is_named_as_torch_names_it() -> None:
    jax = _jax()
    jax.gradients[1]["Net|params/a/kernel"] = jax.gradients[1]["Net|params/a/kernel"] * 0.5
    rung = _differing(_climb(jax))
    assert rung.code == "PAR103" and rung.first.startswith("gradient of Net.a.weight at step 1: relative drift 5.0e-01")


def test_a_missing_gradient_in_torch_is_a_zero_in_jax() -> None:
    torch, jax = _torch(), _jax()
    del torch.gradients[1]["Net|b.bias"]
    jax.gradients[1]["Net|params/b/bias"] = np.zeros(3)
    assert [rung.verdict for rung in _climb(jax, torch)] == [Verdict.EQUAL] * 5
    jax.gradients[1]["Net|params/b/bias"] = np.full(3, 1e-3)
    assert _differing(_climb(jax, torch)).first.startswith("gradient of Net.b.bias")


def test_a_weight_after_one_step() -> None:
    jax = _jax()
    jax.states[2]["Net|params/b/bias"] = _torch().states[2]["Net|b.bias"] * (1 + 1e-4)
    rung = _differing(_climb(jax))
    assert rung.code == "PAR104" and rung.first.startswith("Net.b.bias before step 2")


def test_a_frozen_weight_must_not_move() -> None:
    torch, jax = _torch(), _jax()
    torch.states[2]["Net|b.bias"] = torch.states[1]["Net|b.bias"]
    jax.states[2]["Net|params/b/bias"] = torch.states[1]["Net|b.bias"] * (1 + 1e-6)
    assert _differing(_climb(jax, torch)).first.startswith("Net.b.bias before step 2")


def test_the_gradient_of_a_frozen_weight_is_not_compared() -> None:
    """JAX may take it, and not use it; that the weight stays is compared."""
    torch, jax = _torch(), _jax()
    del torch.gradients[1]["Net|b.bias"]
    torch.states[2]["Net|b.bias"] = torch.states[1]["Net|b.bias"]
    jax.states[2]["Net|params/b/bias"] = torch.states[1]["Net|b.bias"]
    assert _differing(_climb(jax, torch)).first.startswith("gradient of Net.b.bias")
    torch.frozen = {"1": ["Net|b.bias"]}
    assert all(rung.verdict is not Verdict.DIFFERS for rung in _climb(jax, torch))
    jax.states[2]["Net|params/b/bias"] = torch.states[1]["Net|b.bias"] * (1 + 1e-6)
    assert _differing(_climb(jax, torch)).first.startswith("Net.b.bias before step 2")


@pytest.mark.parametrize(("gradient", "verdict"), [(1e-15, Verdict.EQUAL), (1e-3, Verdict.DIFFERS)])
def test_in_float64_the_update_of_a_gradient_of_noise_may_have_any_sign(gradient: float, verdict: Verdict) -> None:
    """A bias before BatchNorm: Adam makes 1e-15 of rounding an update of 1e-7 of the largest."""
    torch, jax = _torch(), _jax()
    for recording, name, sign in ((torch, "Net|b.bias", 1), (jax, "Net|params/b/bias", -1)):
        same = gradient if gradient > 1e-9 else sign * gradient
        recording.gradients[1][name] = np.full(3, same)
        recording.states[2][name] = recording.states[1][name] + sign * 1e-8
    sides = Sides(torch, jax, (copy.deepcopy(torch),), MANIFEST, tolerance.FLOAT64)
    rung = next(rung for rung in ladder.climb(sides) if rung.name == "state after one step")
    assert rung.verdict is verdict


def _with_signs(flipped: int, gradient: float) -> list[ladder.Rung]:
    """Updates of Adam's first step, of a bias of 40 elements: `flipped` of them the other way in JAX, where torch's
    gradient is `gradient` and JAX's is the opposite, or the same where it is no rounding."""
    torch, jax = _torch(), _jax()
    for recording, name, sign in ((torch, "Net|b.bias", 1), (jax, "Net|params/b/bias", -1)):
        slopes, updates = np.linspace(1, 2, 40), np.full(40, 1e-3)
        slopes[:flipped] = gradient * (sign if gradient < 1e-6 else 1)
        updates[:flipped] *= sign
        recording.gradients[1][name] = slopes
        recording.states[1][name] = np.zeros(40)
        recording.states[2][name] = updates
    torch.initial = {**torch.initial, "Net|b.bias": np.zeros(40)}
    return _climb(jax, torch)


@pytest.mark.parametrize(
    ("flipped", "gradient", "verdict"),
    [(1, 1e-9, Verdict.EQUAL), (1, 1e-2, Verdict.DIFFERS), (3, 1e-9, Verdict.DIFFERS)],
    ids=["rounding", "no rounding", "too many"],
)
def test_an_element_whose_sign_roundings_decide_is_no_difference(
    flipped: int, gradient: float, verdict: Verdict
) -> None:
    rung = next(rung for rung in _with_signs(flipped, gradient) if rung.name == "state after one step")
    assert rung.verdict is verdict


def test_an_element_without_a_gradient_is_compared() -> None:
    """Zero in both frameworks is no sign that roundings decide: neither may move."""
    rung = next(rung for rung in _with_signs(1, 0.0) if rung.name == "state after one step")
    assert rung.verdict is Verdict.DIFFERS


def test_statistics_that_follow_noise_are_not_compared() -> None:
    """In float64: what noise of 1e-11 moves by Adam, a bias before BatchNorm, the mean behind it follows."""
    statistics = Leaf("batch_stats/bn/mean", "bn.running_mean")
    manifest = Manifest("train.py", "linen", (replace(MODEL, leaves=(*MODEL.leaves, statistics)),))

    def rungs(noise: float) -> tuple[Sides, list[ladder.Rung]]:
        torch, jax = _torch(), _jax()
        for recording, name, sign in ((torch, "Net|b.bias", 1), (jax, "Net|params/b/bias", -1)):
            recording.gradients[1][name] = np.full(3, sign * noise)
            recording.states[2][name] = recording.states[1][name] + sign * noise
            mean = "Net|bn.running_mean" if recording is torch else "Net|batch_stats/bn/mean"
            for step, state in recording.states.items():
                recording.states[step] = {**state, mean: np.full(3, step * (1.0 + sign * 1e-6))}
        sides = Sides(torch, jax, (copy.deepcopy(torch),), manifest, tolerance.FLOAT64)
        return sides, ladder.climb(sides)

    _, quiet = rungs(1e-15)
    assert _differing(quiet).first.startswith("Net.bn.running_mean before step 2")
    sides, noisy = rungs(1e-11)
    assert all(rung.verdict is not Verdict.DIFFERS for rung in noisy)
    assert sides.notes == ["statistics of Net follow biases that rounding moves: not compared before step 2"]


def test_a_slope_that_roundings_decide_is_no_difference() -> None:
    torch, jax = _torch(), _jax()
    jax.gradients[1]["Net|params/b/bias"] *= 1.01
    sides = Sides(torch, jax, (copy.deepcopy(torch),), MANIFEST)
    assert ladder.slopes_differ(ladder.climb(sides))
    kinked = copy.deepcopy(torch)
    kinked.gradients[1]["Net|b.bias"] *= 0.99
    assert not ladder.slopes_differ(ladder.climb(replace(sides, kinked=(kinked,))))


def test_a_later_loss() -> None:
    jax = _jax()
    jax.losses[2] *= 1.01
    rung = _differing(_climb(jax))
    assert rung.code == "PAR105" and rung.first.startswith("loss at step 3")


def test_an_undecided_step_is_not_judged() -> None:
    torch, jax = _torch(), _jax()
    noise = copy.deepcopy(torch)
    noise.losses[2] *= 1.2
    jax.losses[2] *= 1.3
    rungs = ladder.climb(Sides(torch, jax, (noise,), MANIFEST))
    assert rungs[-1].verdict is Verdict.EQUAL and len(rungs[-1].rows) == 1
    assert "from step 2 on" in rungs[-1].note


def test_another_number_of_steps() -> None:
    jax = _jax()
    del jax.losses[2]
    rung = _differing(_climb(jax))
    assert rung.code == "PAR106" and rung.first == "torch took 3 steps, the rewrite 2"


def test_a_rung_without_anything_to_compare_is_not_equal() -> None:
    jax = Recording(losses=[2.0, 1.5, 1.25])
    verdicts = [rung.verdict for rung in _climb(jax)]
    assert verdicts == [Verdict.NOT_COMPARED, Verdict.EQUAL, Verdict.NOT_COMPARED, Verdict.NOT_COMPARED, Verdict.EQUAL]


def test_two_trained_models_of_one_class_are_compared_by_their_losses_alone() -> None:
    torch = _torch()
    torch.models.append("Net#1")
    torch.gradients[1]["Net#1|b.bias"] = np.ones(3)
    sides = Sides(torch, _jax(), (torch,), MANIFEST)
    rungs = ladder.climb(sides)
    assert [rung.verdict for rung in rungs[:2]] == [Verdict.NOT_COMPARED, Verdict.EQUAL]
    assert sides.notes == ["2 models of the class Net are trained: only their losses are compared"]


@pytest.mark.parametrize(
    ("reference", "other", "expected"),
    [
        ([1.0, 1.0], [1.0, 1.0], 0.0),
        ([3.0, 4.0], [3.0, 5.0], 0.2),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 1e-30], math.inf),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([], [], 0.0),
    ],
)
def test_relative(reference: list[float], other: list[float], expected: float) -> None:
    assert relative(np.array(reference), np.array(other)) == pytest.approx(expected, rel=1e-12) or (
        math.isinf(expected) and math.isinf(relative(np.array(reference), np.array(other)))
    )


def test_a_nan_on_one_side_differs() -> None:
    assert not relative(np.array([1.0, 2.0]), np.array([np.nan, 2.0])) <= 1e9
    assert not relative_scalar(1.0, math.nan) <= 1e9
    assert relative_scalar(math.nan, math.nan) == 0.0


def test_a_recording_comes_back_as_it_was(tmp_path) -> None:
    recording = _torch()
    recording.notes, recording.losses = ["a note"], [0.1, math.nan, math.inf]
    recording.save(tmp_path)
    loaded = Recording.load(tmp_path)
    assert str(loaded.losses) == str(recording.losses)
    assert loaded.models == ["Net"] and loaded.notes == ["a note"]
    for group in ("initial", "outputs"):
        assert list(getattr(loaded, group)) == list(getattr(recording, group))
    np.testing.assert_array_equal(loaded.states[2]["Net|b.bias"], recording.states[2]["Net|b.bias"])
    np.testing.assert_array_equal(loaded.gradients[1]["Net|a.weight"], recording.gradients[1]["Net|a.weight"])

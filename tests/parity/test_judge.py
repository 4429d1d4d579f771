"""What the gate says of tensors: each rule at its limit, and everything that must never count as a pass."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from parity import judge, tolerance
from parity.judge import Budget, Check, Tensors

TODAY = date(2026, 1, 15)


def sides(
    error: float, own: float = 1e-7, size: int = 1000, wide: float = 0.0, name: str = "output of Net.fc"
) -> Tensors:
    """An oracle of ones and twos; torch off by `own`, JAX by `error`, JAX in float64 by `wide`, with changing signs."""
    oracle = 1.0 + np.arange(size) % 2
    sign = np.where(np.arange(size) % 3, 1.0, -1.0)
    return Tensors({name: oracle + own * sign}, {name: oracle + error * sign}, {name: oracle}, {name: oracle + wide})


def judged(tensors: Tensors, *budgets: Budget, mode: str = "jit") -> dict[str, Check]:
    return {check.rule: check for check in judge.checks("s", tensors, budgets, mode, TODAY)}


@pytest.mark.parametrize(("error", "status"), [(3.9e-7, "pass"), (4.1e-7, "fail")])
def test_precision_is_a_ratio_to_the_oracle(error: float, status: str) -> None:
    check = judged(sides(error))[judge.PRECISION]
    assert check.status == status
    assert check.value == pytest.approx(error / 1e-7, rel=1e-3)
    assert check.limit == tolerance.ORACLE_RATIO.times
    assert check.mode == "float32-jit"


def test_small_tensors_have_room_for_chance() -> None:
    assert judged(sides(30e-7, size=10))[judge.PRECISION].status == "pass"
    assert judged(sides(30e-7, size=500))[judge.PRECISION].status == "pass"
    assert judged(sides(30e-7, size=501))[judge.PRECISION].status == "fail"


def test_torch_exact_by_chance_counts_as_a_quarter_of_a_rounding() -> None:
    check = judged(sides(2.0**-24, own=0.0))[judge.PRECISION]
    assert check.status == "pass" and 2 < check.value < 4


def test_bfloat16_is_known_by_its_values_and_has_its_own_budget() -> None:
    random = np.random.RandomState(0)
    oracle = random.standard_normal(4000)

    def rounded(x: np.ndarray) -> np.ndarray:
        return (np.float32(x).view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32)

    theirs = rounded(oracle)
    found = judged(Tensors({"y": theirs}, {"y": rounded(oracle * 1.004)}, {"y": oracle}, {"y": oracle}))
    check = found[judge.PRECISION]
    assert check.mode == "bfloat16-jit"
    assert check.limit == tolerance.ORACLE_RATIO_BFLOAT16.times
    assert check.status == "fail" and 2 < check.value < 4


@pytest.mark.parametrize(("wide", "status"), [(1e-10, "pass"), (1e-8, "fail")])
def test_semantics_are_judged_in_float64(wide: float, status: str) -> None:
    assert judged(sides(1e-7, wide=wide))[judge.SEMANTICS].status == status


def test_a_gradient_that_is_zero_in_exact_arithmetic_is_noise() -> None:
    noise, large = np.full(8, 1e-17), np.ones(8)
    names = ("gradient of Net.key.bias", "gradient of Net.fc.weight")
    exact = dict(zip(names, (noise, large), strict=True))
    wide = dict(zip(names, (-noise, large), strict=True))
    found = judge.checks("s", Tensors(exact, exact, exact, wide), today=TODAY)
    assert {check.status for check in found if check.rule == judge.SEMANTICS} == {"pass"}


def test_decisions_count_only_where_the_margin_exceeds_the_noise() -> None:
    oracle = np.array([[1.0, 0.0], [1.0, 1.0 - 1e-9], [0.0, 1.0]] * 200)
    theirs = oracle + 1e-7
    close, wrong = oracle.copy(), oracle.copy()
    close[1::3] = close[1::3, ::-1]
    wrong[0] = wrong[0, ::-1]
    name = "output of the model Net"
    for ours, status in ((close, "pass"), (wrong, "fail")):
        found = judged(Tensors({name: theirs}, {name: ours}, {name: oracle}, {name: oracle}))
        assert found[judge.DECISIONS].status == status


def test_the_same_infinities_are_a_mask_and_others_a_finding() -> None:
    oracle = np.array([[-np.inf, 1.0], [2.0, 3.0]] * 400)
    same = Tensors({"y": oracle}, {"y": oracle.copy()}, {"y": oracle}, {"y": oracle})
    assert {check.status for check in judged(same).values()} == {"pass"}
    other = Tensors({"y": oracle}, {"y": np.where(np.isinf(oracle), -1e9, oracle)}, {"y": oracle}, {"y": oracle})
    assert judged(other)[judge.PRECISION].status == "fail"


def test_a_nan_in_jax_fails_and_one_in_torch_decides_nothing() -> None:
    good = sides(1e-7)
    bad = {"output of Net.fc": np.full(1000, np.nan)}
    assert judged(Tensors(good.torch, bad, good.torch64, good.jax64))[judge.PRECISION].status == "fail"
    assert judged(Tensors(bad, good.jax, good.torch64, good.jax64))[judge.PRECISION].status == "undecided"
    assert [check.status for check in judged(Tensors(bad, bad, bad, bad)).values()] == ["undecided"]


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (Tensors({}, {}), "nothing was compared"),
        (Tensors({"a": np.ones(3)}, {}), "a has no counterpart in JAX"),
        (Tensors({"a": np.ones(3)}, {"a": np.ones(3), "b": np.ones(3)}), "b has no counterpart in torch"),
        (Tensors({"a": np.ones(3)}, {"a": np.ones((3, 1))}), "a has the shape (3,) in torch and (3, 1) in JAX"),
        (Tensors({"a": np.ones(3)}, {"a": np.ones(3)}), "a has no float64 oracle; give it an absolute budget"),
    ],
)
def test_what_cannot_be_decided_is_not_a_pass(tensors: Tensors, said: str) -> None:
    undecided = [check for check in judge.checks("s", tensors, today=TODAY) if check.status == "undecided"]
    assert any(said in check.message for check in undecided)


def test_the_last_budget_that_covers_a_tensor_holds_until_it_expires() -> None:
    wide = Budget(tensor="output of *", ratio=20.0, owner="ada", reason="r")
    narrow = Budget(tensor="*.fc", mode="float32-*", ratio=2.0, owner="bob", reason="r", expires=TODAY)
    assert judged(sides(1e-6), wide)[judge.PRECISION].status == "pass"
    found = judged(sides(1e-6), wide, narrow)[judge.PRECISION]
    assert (found.status, found.owner, found.limit) == ("fail", "bob", 2.0)
    later = judge.checks("s", sides(1e-6), [wide, narrow], today=date(2026, 1, 16))
    assert next(check for check in later if check.rule == judge.PRECISION).owner == "ada"


def test_an_absolute_budget_needs_no_oracle() -> None:
    tensors = Tensors({"a": np.ones(9)}, {"a": np.ones(9) + 1e-3})
    for limit, status in ((2e-3, "pass"), (0.5e-3, "fail")):
        budget = Budget(absolute=limit, owner="ada", reason="r")
        assert judged(tensors, budget)[judge.PRECISION].status == status

"""The limits: floors, torch's own spread, cancellation, and when a step decides nothing."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from parity import tolerance


def test_floors_hold_where_torch_repeats_itself() -> None:
    limits = tolerance.loss_limits([2.0, 1.9, 1.8], [[2.0, 1.9, 1.8]])
    assert [limit.relative for limit in limits] == [2e-6, 2e-6, 1e-5]
    assert all(limit.decides for limit in limits)


def test_the_measured_spread_counts_ten_times_from_two_thirds_of_its_step_on() -> None:
    quiet = [1.0] * 12
    limits = tolerance.loss_limits(quiet, [[1.0] * 8 + [1.0 + 1e-4] + [1.0] * 3, quiet])
    assert [limit.relative for limit in limits] == pytest.approx([2e-6] * 2 + [1e-5] * 3 + [1e-3] * 7)


def test_a_chaotic_run_decides_nothing_from_some_step_on() -> None:
    limits = tolerance.loss_limits([1.0, 1.0, 1.0, 1.0], [[1.0, 1.0, 1.1, 1.0]])
    assert [limit.decides for limit in limits] == [True, False, False, False]


def test_a_missing_perturbed_run_leaves_the_floors() -> None:
    assert [limit.relative for limit in tolerance.loss_limits([1.0, 1.0, 1.0], [])] == [2e-6, 2e-6, 1e-5]


def test_a_loss_that_crosses_zero_is_judged_by_the_size_of_its_terms() -> None:
    crossing = tolerance.loss_limits([1.0, 1.0, 1e-4], [])[2]
    assert crossing.relative == pytest.approx(4 * 2**-23 / 1e-4)
    assert tolerance.loss_limits([1.0, 1.0, 0.0], [])[2].relative <= tolerance.UNDECIDED


def test_losses_that_are_not_finite_do_not_loosen_anything() -> None:
    limits = tolerance.loss_limits([1.0, math.inf, 1.0], [[1.0, math.nan, 1.0]])
    assert limits[2].relative == 1e-5 and limits[2].decides


def test_a_gradient_of_pure_rounding_has_a_limit_from_the_model_s_largest() -> None:
    assert tolerance.gradient_limit(0.0, size=1.0, largest=1.0) == 1e-5
    assert tolerance.gradient_limit(0.0, size=1e-9, largest=1.0) > 100
    assert math.isinf(tolerance.gradient_limit(0.0, size=0.0, largest=1.0))


def test_a_small_update_of_a_large_weight_is_limited_by_the_weight_s_spacing() -> None:
    assert tolerance.update_limit(0.0, weight=1.0, update=1.0) == 1e-4
    assert tolerance.update_limit(0.0, weight=1.0, update=1.0, learnt=False) == 1e-5
    assert tolerance.update_limit(0.0, weight=1.0, update=1e-4) == pytest.approx(2 * 2**-23 / 1e-4)


def test_the_page_states_the_floors_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "tolerances.md").read_text()
    stated = re.findall(r"^\|[^|]+\|[^|]+\| (\d+e-\d+) \|", page, flags=re.MULTILINE)
    floors = [value for value in vars(tolerance).values() if isinstance(value, tolerance.Floor)]
    assert [float(number) for number in stated] == [floor.relative for floor in floors]


def test_output_limit() -> None:
    assert tolerance.output_limit(0.0) == 2e-6
    assert tolerance.output_limit(1e-6) == pytest.approx(1e-5)
    assert tolerance.output_limit(math.inf) == 2e-6

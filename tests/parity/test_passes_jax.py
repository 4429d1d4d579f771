"""Which of several passes the recorded outputs are of, on the rewritten side."""

from __future__ import annotations

import numpy as np
import pytest

from parity.passes_jax import Outputs
from parity.record import Tensors

FIRST, SECOND = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) - 7


def told(theirs: Tensors, *passes: np.ndarray, taken: dict[str, str] | None = None) -> np.ndarray:
    found: Tensors = {}
    outputs = Outputs(found)
    for number, value in reversed(list(enumerate(passes, 1))):  # they arrive in any order
        outputs.note(False, number, "Net|fc|0|0", value * 2)
        outputs.note(False, number, "Net||0|0", value)
    outputs.calls += 1
    outputs.note(False, 1, "Net||0|0", np.full((2, 3), 99.0))  # a later step
    outputs.tell({"Net": "Net"} if taken is None else taken, theirs)
    np.testing.assert_array_equal(found["Net|fc|0|0"], found["Net||0|0"] * 2)
    return found["Net||0|0"]


def test_the_first_pass_counts() -> None:
    np.testing.assert_array_equal(told({}, FIRST, SECOND), FIRST)


def test_the_pass_of_torchs_loss_counts() -> None:
    np.testing.assert_array_equal(told({"Net||0|0": SECOND + 1e-6}, FIRST, SECOND), SECOND)


def test_its_axes_may_be_in_another_order() -> None:
    np.testing.assert_array_equal(told({"Net||0|0": SECOND.T}, FIRST, SECOND), SECOND)


def test_a_pass_that_went_wrong_stays_wrong() -> None:
    assert np.abs(told({"Net||0|0": SECOND}, FIRST, SECOND + 0.5) - SECOND).max() == pytest.approx(0.5)


@pytest.mark.parametrize("broken", [np.full((2, 3), np.nan), np.ones((2, 2))])
def test_what_cannot_be_compared_is_not_chosen(broken: np.ndarray) -> None:
    np.testing.assert_array_equal(told({"Net||0|0": SECOND}, broken, SECOND), SECOND)


def test_models_of_one_class_are_not_told_apart_by_it() -> None:
    taken = {"Net": "Net", "Net#2": "Net"}
    np.testing.assert_array_equal(told({"Net||0|0": SECOND}, FIRST, SECOND, taken=taken), FIRST)


def test_passes_without_a_gradient_count_where_there_are_no_others() -> None:
    found: Tensors = {}
    outputs = Outputs(found)
    outputs.note(True, 1, "Target||0|0", FIRST)
    outputs.note(True, 1, "Net||0|0", FIRST)
    outputs.note(False, 2, "Net||0|0", SECOND)
    outputs.tell({"Net": "Net", "Target": "Target"}, {})
    np.testing.assert_array_equal(found["Target||0|0"], FIRST)
    np.testing.assert_array_equal(found["Net||0|0"], SECOND)

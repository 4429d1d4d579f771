import pytest

from tests.bench.statistics import Spread, ratio, step_time


def test_step_time_is_the_spread_of_the_rounds_medians():
    assert step_time([[1.0, 2.0, 90.0], [3.0, 3.0, 3.0], [7.0, 1.0, 7.0]]) == Spread(3.0, 2.0, 7.0)


def test_ratio_compares_round_with_round():
    slowed_down_together = [[2.0], [20.0]], [[1.0], [10.0]]
    assert ratio(*slowed_down_together) == Spread(2.0, 2.0, 2.0)


def test_no_values_have_no_spread():
    with pytest.raises(ValueError, match="no values"):
        Spread.of([])

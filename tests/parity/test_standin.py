"""The stand-in for random numbers: distribution, equivariance, and the same numbers in both frameworks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from parity import standin

SHAPES = [(1437,), (64, 100), (32, 16, 12, 12), (7, 1, 5, 3), (50, 20)]


@pytest.mark.parametrize("shape", SHAPES)
def test_uniform_looks_uniform(shape: tuple[int, ...]) -> None:
    draws = standin.uniform01(shape)
    assert draws.shape == shape
    assert draws.min() > 0 and draws.max() < 1
    # A stratified sample is closer to uniform than a random one: the 1 % point of a random sample is a loose bound.
    distance = stats.kstest(draws.ravel(), "uniform").statistic
    assert distance < stats.kstwo.ppf(0.99, draws.size)


@pytest.mark.parametrize("shape", SHAPES)
def test_normal_has_the_moments_of_a_normal(shape: tuple[int, ...]) -> None:
    draws = standin.normal(shape)
    error = 1 / np.sqrt(draws.size)  # of the mean of a random sample
    assert abs(draws.mean()) < 3 * error
    assert abs(draws.std() - 1) < 3 * error


def test_a_square_draw_is_symmetric_and_still_spread_out() -> None:
    draws = standin.uniform01((40, 40))
    np.testing.assert_array_equal(draws, draws.T)
    assert len(np.unique(draws)) == 40 * 41 // 2


def test_permuting_the_shape_permutes_the_numbers_bit_for_bit() -> None:
    draws = standin.uniform01((4, 3, 5, 2))
    for axes in itertools.permutations(range(4)):
        permuted = standin.uniform01(tuple(draws.shape[axis] for axis in axes))
        np.testing.assert_array_equal(permuted, draws.transpose(axes))


def test_axes_of_length_one_do_not_matter() -> None:
    np.testing.assert_array_equal(standin.uniform01((6, 1, 8, 1)).reshape(6, 8), standin.uniform01((6, 8)))
    assert standin.uniform01((1, 1)).item() == standin.uniform01(()).item()


def test_empty_shapes() -> None:
    assert standin.uniform01((0, 3)).shape == (0, 3)
    assert standin.permutation(0).tolist() == []


def test_float32_holds_every_number_exactly() -> None:
    draws = standin.uniform01((300, 300))
    np.testing.assert_array_equal(draws.astype(np.float32).astype(np.float64), draws)


def test_numbers_are_pinned() -> None:
    """Recorded runs and published figures depend on them: a change of the tables is a change of format."""
    assert standin.permutation(10).tolist() == [9, 2, 6, 4, 0, 3, 5, 7, 1, 8]
    assert standin.uniform01(()).item() == pytest.approx(0.618034, abs=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_bernoulli_keeps_the_share_asked_for(p: float) -> None:
    draws = standin.bernoulli((64, 100), p)
    assert abs(draws.mean() - p) < 3 * np.sqrt(p * (1 - p) / draws.size)


def test_bernoulli_at_the_ends() -> None:
    assert not standin.bernoulli((50, 3), 0.0).any()
    assert standin.bernoulli((50, 3), 1.0).all()


def test_randint_covers_its_range() -> None:
    draws = standin.randint((1000,), -3, 5)
    assert sorted(set(draws.tolist())) == list(range(-3, 5))
    assert np.bincount(draws + 3).min() > 100


def test_permutation_is_one() -> None:
    assert sorted(standin.permutation(5000).tolist()) == list(range(5000))
    assert standin.permutation(5000).tolist() != list(range(5000))


def test_truncated_normal_stays_inside() -> None:
    draws = standin.truncated_normal((500,), -2.0, 2.0)
    assert draws.min() >= -2 and draws.max() <= 2
    assert stats.kstest(draws, stats.truncnorm(-2, 2).cdf).statistic < stats.kstwo.ppf(0.99, 500)


def test_exponential_and_gumbel() -> None:
    assert stats.kstest(standin.exponential((500,)), "expon").statistic < stats.kstwo.ppf(0.99, 500)
    assert stats.kstest(standin.gumbel((500,)), "gumbel_r").statistic < stats.kstwo.ppf(0.99, 500)


def test_categorical_is_the_inverse_cdf() -> None:
    weights = np.array([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0]])
    assert standin.categorical(weights, np.array([0.2, 0.01])).tolist() == [0, 2]
    assert standin.categorical(weights, np.array([0.3, 0.99])).tolist() == [2, 2]
    draws = standin.categorical(np.tile([2.0, 1.0, 1.0], (1000, 1)), standin.uniform01((1000,)))
    assert np.abs(np.bincount(draws) / 1000 - [0.5, 0.25, 0.25]).max() < 0.01


def test_without_replacement_draws_distinct_classes_of_weight() -> None:
    weights = np.tile([1.0, 0.0, 3.0, 2.0, 1.0], (20, 1))
    draws = standin.without_replacement(weights, 4)
    assert all(sorted(row) == [0, 2, 3, 4] for row in draws.tolist())

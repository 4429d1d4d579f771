"""The exact reference of matrix products, and both frameworks against it."""

from __future__ import annotations

import io
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from rich.console import Console

from parity import matmul, reference
from parity.codes import ParityError


def _inputs(n: int, k: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    return random.randn(n, k).astype(np.float32), random.randn(k, m).astype(np.float32)


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (5, 4, 7), (40, 4, 3), (17, 9, 2)])
def test_hi_plus_lo_is_the_product_where_the_certificate_says_so(n: int, k: int, m: int) -> None:
    a, b = _inputs(n, k, m)
    assert reference.certificate(a, b, "float32").exact
    seen = 0
    for rows, hi, lo in reference.exact_product(a, b):
        for i in range(hi.shape[0]):
            for j in range(m):
                exact = sum(Fraction(float(a[rows][i, x])) * Fraction(float(b[x, j])) for x in range(k))
                assert Fraction(float(hi[i, j])) + Fraction(float(lo[i, j])) == exact
                seen += 1
    assert seen == n * m


def test_the_certificate_refuses_exponents_that_could_round() -> None:
    a, b = _inputs(4, 4, 4)
    wide = a.copy()
    wide[0, 0] *= np.float32(2.0**-60)
    assert not reference.certificate(wide, b, "float32").exact
    assert reference.certificate(np.zeros((2, 4), np.float32), b, "float32").exact


def test_mpmath_is_exact_under_cancellation() -> None:
    a = np.array([[1.0, 1.0, -1.0, 2.0**-30]], np.float32)
    b = np.array([[2.0**40], [1.0], [2.0**40], [1.0]], np.float32)
    (entry,) = reference.mpmath_product(a, b, np.array([0]), np.array([0]))
    assert entry == mpmath.mpf(1) + mpmath.mpf(2) ** -30


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_units_in_the_last_place_are_numpy_s(dtype: str) -> None:
    values = np.array([1.0, 1.5, -3.0, 1e-3, 6e4, 1e-6, 0.999], dtype)
    expected = np.abs(np.spacing(values)).astype(np.float64)
    np.testing.assert_array_equal(reference.units_in_last_place(values.astype(np.float64), dtype), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_both_frameworks_are_within_the_bound_of_theory(dtype: str) -> None:
    result = matmul.matmul_parity(48, dtype, seed=3)
    assert result.certificate.exact
    assert result.mpmath_entries >= 200 and result.mpmath_error == 0.0
    assert set(result.errors) == {"torch", "jax"}
    for error in result.errors.values():
        assert 0 < error.rms <= error.max_abs
        # k products and k - 1 additions round at most k times: |error| <= k u / (1 - k u) |A||B|.
        assert error.scaled <= 4 / (1 - 4 * reference.unit_roundoff(dtype))
        assert error.relative_frobenius < reference.unit_roundoff(dtype)
    text = io.StringIO()
    matmul.render(result, Console(file=text, width=100))
    assert "proved exact" in text.getvalue() and f"[48, 4] x [4, 48], {dtype}, seed 3" in text.getvalue()


def test_a_wrong_product_is_measured() -> None:
    a, b = _inputs(20, 4, 20)
    right = a.astype(np.float64) @ b.astype(np.float64)
    wrong = right.astype(np.float32)
    wrong[3, 5] += np.float32(0.25)
    result = matmul._measure(a, b, {"torch": right.astype(np.float32), "jax": wrong}, "float32", 0)
    assert result.errors["jax"].max_abs == pytest.approx(0.25, rel=1e-5)
    assert result.errors["torch"].max_ulp <= 0.5
    assert result.differing == 1 / 400


@pytest.mark.parametrize(("d", "dtype", "message"), [(4, "int8", "dtype 'int8'"), (0, "float32", "at least 1")])
def test_wrong_arguments(d: int, dtype: str, message: str) -> None:
    with pytest.raises(ParityError, match=message):
        matmul.matmul_parity(d, dtype)

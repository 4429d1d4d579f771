"""The exact reference of matrix products, and both frameworks against it."""

from __future__ import annotations

import io
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from rich.console import Console

from parity import emulate, matmul, matmul_report, reference
from parity.codes import ParityError
from parity.freivalds import Freivalds


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
    assert result.freivalds and result.mpmath_entries >= 2000 and result.mpmath_error == 0.0
    assert set(result.errors) == {"torch", "jax"}
    for error in result.errors.values():
        assert 0 < error.rms <= error.max_abs
        # k products and k - 1 additions round at most k times: |error| <= k u / (1 - k u) |A||B|.
        assert error.scaled <= 4 / (1 - 4 * reference.unit_roundoff(dtype))
        assert error.relative_frobenius < reference.unit_roundoff(dtype)
    text = io.StringIO()
    matmul_report.render(result, Console(file=text, width=100))
    assert "proved exact" in text.getvalue() and f"[48, 4] x [4, 48], {dtype}, normal, seed 3" in text.getvalue()


def test_a_wrong_product_is_measured() -> None:
    a, b = _inputs(20, 4, 20)
    right = a.astype(np.float64) @ b.astype(np.float64)
    wrong = right.astype(np.float32)
    wrong[3, 5] += np.float32(0.25)
    result = matmul.measure(a, b, {"torch": right.astype(np.float32), "jax": wrong}, matmul.Study((20,)))
    assert result.errors["jax"].max_abs == pytest.approx(0.25, rel=1e-5)
    assert result.errors["torch"].max_ulp <= 0.5
    assert result.differing == 1 / 400


@pytest.mark.parametrize(("d", "dtype", "message"), [(4, "int8", "dtype 'int8'"), (0, "float32", "at least 1")])
def test_wrong_arguments(d: int, dtype: str, message: str) -> None:
    with pytest.raises(ParityError, match=message):
        matmul.matmul_parity(d, dtype)


def test_freivalds_sees_the_last_bit_of_one_entry() -> None:
    a, b = _inputs(40, 4, 3000)
    for spoiled in (False, True):
        check = Freivalds(a, b, seed=0)
        for rows, hi, lo in reference.product(a, b, "float32"):
            if spoiled and rows.start == 0:
                hi[3, 17] = np.nextafter(hi[3, 17], np.inf)
            check.add(rows, hi, lo)
        assert check.passed is not spoiled


@pytest.mark.parametrize(("k", "spread", "tier"), [(4, 1.0, 1), (4, 2.0**-60, 2), (300, 1.0, 2)])
def test_every_tier_is_right_to_a_hundredth_of_a_unit(k: int, spread: float, tier: int) -> None:
    a, b = _inputs(6, k, 5)
    a[0, 0] *= np.float32(spread)
    assert reference.certificate(a, b, "float32").tier == tier
    for rows, hi, lo in reference.product(a, b, "float32"):
        at = np.indices(hi.shape).reshape(2, -1)
        exact = reference.mpmath_product(a, b, at[0] + rows.start, at[1])
        ulp = reference.units_in_last_place(hi, "float32").ravel()
        for x, h, low, unit in zip(exact, hi.ravel(), lo.ravel(), ulp, strict=True):
            assert abs(x - mpmath.mpf(h) - mpmath.mpf(low)) <= reference.UNDECIDED_ULPS * unit


def test_tier_0_is_a_plain_product() -> None:
    a, b = (np.round(x * 4).astype(np.float32) for x in _inputs(9, 4, 7))
    assert reference.certificate(a, b, "bfloat16").tier == 0
    hi = np.concatenate([hi for _, hi, _ in reference.product(a, b, "bfloat16")])
    np.testing.assert_array_equal(hi, a.astype(int) @ b.astype(int))


def test_mpmath_row_by_row_gives_the_same_figures() -> None:
    fast, slow = (matmul.run(matmul.Study((24,), reference=name))[0] for name in ("proved", "mpmath"))
    assert fast.errors["jax"].rms == pytest.approx(slow.errors["jax"].rms, rel=1e-12)
    assert fast.errors["jax"].max_ulp == slow.errors["jax"].max_ulp


def test_three_slices_hold_any_float() -> None:
    x = np.random.RandomState(0).standard_normal(10_000).astype(np.float32)
    np.testing.assert_array_equal(np.sum(emulate._slices(x, 3), axis=0, dtype=np.float32), x)


# Measured at k = 4 and stated for each emulation: relative Frobenius error, and the largest one that passes.
LEVELS = {
    "TPU default": (2.0e-3, 3.5e-3),
    "bf16 truncated": (5.0e-3, 7.0e-3),
    "TF32": (2.0e-4, 4.5e-4),
    "TPU high": (3.0e-6, 7.0e-6),
    "TPU highest": (1.0e-8, 5.0e-8),
}


def test_emulated_accelerators_stand_where_they_were_measured_and_rms_does_not_grow() -> None:
    results = matmul.run(matmul.Study((64, 256), emulations=("tpu", "tf32"), precision="highest"))
    for name, (low, high) in LEVELS.items():
        assert all(low < result.errors[name].relative_frobenius < high for result in results)
    assert all(result.differing == 0 for result in results), "both frameworks are bitwise equal at k = 4"
    assert results[1].errors["bf16 truncated"].bias < -0.9 < -0.3 < results[1].errors["TPU default"].bias
    assert results[1].errors["jax"].rms < 1.1 * results[0].errors["jax"].rms
    assert sum("ignored on the CPU" in note for note in results[0].notes) == 2
    page = matmul_report.to_html(results)
    assert "<svg" in page and "TPU default" in page and "d, of [d, 4]" not in page.partition("<section>")[0]


def test_sizes() -> None:
    assert matmul.parse_ds(["8..70", "100,7"]) == (8, 16, 32, 64, 70, 100, 7)
    for text in ("0", "x", "8..4", ""):
        with pytest.raises(ParityError, match="--d"):
            matmul.parse_ds([text])

"""Real numbers of high precision, in numpy arrays of objects: mpmath's, and the balls of python-flint.

A ball is a midpoint and a radius that certainly contains the real number; a comparison that a ball leaves open is an
error, never a guess.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
import mpmath
import numpy as np

BITS = 200
Value: TypeAlias = Any  # an object array of numbers, or an array of whole numbers, truth values or keys


class Unknown(NotImplementedError):
    """A primitive that the interpreter does not know."""


class Undecided(ArithmeticError):
    """A comparison of two balls that overlap: more bits may decide it."""


class Numbers(ABC):
    """A kind of real number. Arrays of it have dtype object; scalar functions go through `apply`."""

    name: str

    def __init__(self, bits: int = BITS) -> None:
        self.bits = bits
        self.functions: dict[str, Callable[..., Any]] = {}

    @abstractmethod
    def number(self, value: float) -> Any:
        """The float, exactly."""

    @abstractmethod
    def float(self, number: Any) -> float:
        """The nearest float64."""

    @abstractmethod
    def less(self, one: Any, other: Any) -> bool:
        """one < other; False where one is not a number. Raises Undecided."""

    @abstractmethod
    def equal(self, one: Any, other: Any) -> bool:
        """Raises Undecided."""

    @abstractmethod
    def matrix_product(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """(m, k) times (k, n)."""

    def array(self, values: Any) -> np.ndarray:
        """An array of floats, exactly."""
        floats = np.asarray(values)
        wide = floats.astype(np.float64).reshape(-1).tolist()
        made = np.empty(floats.size, object)
        made[:] = [self.number(value) for value in wide]
        return made.reshape(floats.shape)

    def floats(self, array: np.ndarray) -> np.ndarray:
        """Float64, each rounded once."""
        return np.array([self.float(number) for number in array.reshape(-1)], np.float64).reshape(array.shape)

    def apply(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        """A scalar function over arrays that broadcast."""
        return self.each(self.functions[name], *arrays)

    def each(self, function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
        result = np.frompyfunc(function, len(arrays), 1)(*arrays)
        return np.asarray(result, object)

    def radius(self, array: np.ndarray) -> float:
        """The largest radius: 0 for numbers that have none."""
        return 0.0

    def error(self, computed: np.ndarray, exact: np.ndarray) -> np.ndarray:
        """computed - exact as float64, subtracted before it is rounded; NaN where one alone is not finite."""
        return self.floats(self.each(lambda one, other: one - other, self.array(computed), exact))


class Mpmath(Numbers):
    """mpmath's numbers, correctly rounded to `bits` in each operation."""

    name = "mpmath"

    def __init__(self, bits: int = BITS) -> None:
        super().__init__(bits)
        self.context: Any = mpmath.mp.clone()
        self.context.prec = bits
        mp = self.context
        one, two = mp.mpf(1), mp.mpf(2)
        names = "exp expm1 sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh erf erfc floor ceil sign"
        self.functions = {name: getattr(mp, name) for name in names.split()} | {
            "abs": abs,
            "neg": lambda x: -x,
            "log": lambda x: mp.ninf if x == 0 else mp.nan if x < 0 else mp.log(x),
            "log1p": lambda x: mp.ninf if x == -1 else mp.nan if x < -1 else mp.log1p(x),
            "sqrt": lambda x: mp.sqrt(x) if not x < 0 else mp.nan,
            "rsqrt": lambda x: mp.inf if x == 0 else one / mp.sqrt(x) if not x < 0 else mp.nan,
            "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
            "exp2": lambda x: mp.power(two, x),
            "logistic": lambda x: one / (one + mp.exp(-x)),
            "square": lambda x: x * x,
            "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
            "digamma": mp.digamma,
            "polygamma": lambda n, x: mp.polygamma(int(n), x),
            "erf_inv": mp.erfinv,
            "add": lambda x, y: x + y,
            "sub": lambda x, y: x - y,
            "mul": lambda x, y: x * y,
            "div": self._divide,
            "pow": self._power,
            "max": lambda x, y: x if y < x or mp.isnan(x) else y,
            "min": lambda x, y: x if x < y or mp.isnan(x) else y,
            "atan2": mp.atan2,
        }

    def number(self, value: float) -> Any:
        return self.context.mpf(value)

    def float(self, number: Any) -> float:
        return float(number)

    def less(self, one: Any, other: Any) -> bool:
        return bool(one < other)

    def equal(self, one: Any, other: Any) -> bool:
        return bool(one == other)

    def matrix_product(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        made = np.empty((one.shape[0], other.shape[1]), object)
        columns = [other[:, j].tolist() for j in range(other.shape[1])]
        for i, row in enumerate(one.tolist()):
            made[i] = [self.context.fdot(zip(row, column, strict=True)) for column in columns]
        return made

    def _divide(self, x: Any, y: Any) -> Any:
        if y == 0:
            return self.context.nan if x == 0 or self.context.isnan(x) else self.context.sign(x) * self.context.inf
        return x / y

    def _power(self, x: Any, y: Any) -> Any:
        mp = self.context
        if x == 0:
            return mp.mpf(1) if y == 0 else mp.inf if y < 0 else mp.mpf(0)
        return mp.power(x, y) if x > 0 or y == mp.floor(y) else mp.nan


class Arb(Numbers):
    """python-flint's balls: 20 to 80 times as fast as mpmath, and each result says how far off it can be."""

    name = "python-flint"

    def __init__(self, bits: int = BITS) -> None:
        super().__init__(bits)
        import flint

        self.flint = flint
        flint.ctx.prec = bits
        one = flint.arb(1)
        names = "exp expm1 log log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh erf erfc floor ceil"
        self.functions = {name: self._method(name) for name in names.split()} | {
            "abs": abs,
            "neg": lambda x: -x,
            "sign": lambda x: x.sgn(),
            "sqrt": lambda x: x.sqrt(),
            "rsqrt": lambda x: x.rsqrt(),
            "cbrt": lambda x: x.root(3) if x >= 0 else -((-x).root(3)),
            "exp2": lambda x: flint.arb(2) ** x,
            "logistic": lambda x: one / (one + (-x).exp()),
            "square": lambda x: x * x,
            "lgamma": lambda x: x.lgamma(),
            "digamma": lambda x: x.digamma(),
            "polygamma": self._polygamma,
            "erf_inv": lambda x: x.erfinv(),
            "add": lambda x, y: x + y,
            "sub": lambda x, y: x - y,
            "mul": lambda x, y: x * y,
            "div": lambda x, y: x / y,
            "pow": lambda x, y: x**y,
            # the number itself where that is certain: its place is looked for afterwards
            "max": lambda x, y: x if x >= y else y if y > x else x.max(y),
            "min": lambda x, y: x if x <= y else y if y < x else x.min(y),
            "atan2": flint.arb.atan2,
        }

    def _method(self, name: str) -> Callable[[Any], Any]:
        return lambda x: getattr(x, name)()

    def _polygamma(self, n: Any, x: Any) -> Any:
        """By Hurwitz's zeta function."""
        order = int(float(n))
        return (-1) ** (order + 1) * math.factorial(order) * self.flint.arb(order + 1).zeta(x)

    def number(self, value: float) -> Any:
        return self.flint.arb(value)

    def float(self, number: Any) -> float:
        return float(number.mid()) if number.is_finite() else float(number)

    def less(self, one: Any, other: Any) -> bool:
        if one < other:
            return True
        if one is other or one >= other or one.is_nan() or other.is_nan():
            return False
        raise Undecided(f"{one} < {other} is not decided with {self.bits} bits")

    def equal(self, one: Any, other: Any) -> bool:
        if one == other or (one is other and not one.is_nan()):
            return True
        if one.is_nan() or other.is_nan() or not one.overlaps(other):
            return False
        raise Undecided(f"{one} == {other} is not decided with {self.bits} bits")

    def matrix_product(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        matrix: Any = self.flint.arb_mat
        product = matrix(*one.shape, one.reshape(-1).tolist()) * matrix(*other.shape, other.reshape(-1).tolist())
        made = np.empty(one.shape[0] * other.shape[1], object)
        made[:] = product.entries()
        return made.reshape(one.shape[0], other.shape[1])

    def radius(self, array: np.ndarray) -> float:
        radii = [float(number.rad()) for number in array.reshape(-1) if number.is_finite()]
        return max(radii, default=0.0)


def agree(one: Numbers, first: np.ndarray, other: Numbers, second: np.ndarray) -> float:
    """The largest relative difference of two evaluations, as float64 sees it; inf where one alone is not finite."""
    a, b = one.floats(first), other.floats(second)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.maximum(np.abs(a), np.abs(b))
        nothing = size[np.isfinite(size)].max(initial=0.0) * 2.0**-120  # where all of a sum cancels
        off = np.abs(a - b)[~same] / np.maximum(size[~same], nothing)
    return float(np.nan_to_num(off, nan=math.inf, posinf=math.inf).max())


def is_floating(dtype: Any) -> bool:
    """Whether values of that type become numbers."""
    return jnp.issubdtype(dtype, jnp.floating)

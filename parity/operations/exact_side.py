"""What the operations are, by the oracle: their definitions and the gradients of these, evaluated in high precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity.operations.definitions import DEFINITIONS
from parity.operations.jax_side import differentiated, programs
from parity.operations.table import OPERATIONS
from parity.oracle import Arb, Mpmath, Numbers, Unknown, exactly
from parity.oracle.interpreter import evaluate as evaluated_program
from parity.oracle.numbers import agree

CHECKED = 64  # elements of an elementwise operation that the other oracle evaluates too
# How far beside a point the slope on either side is taken, relative to the point, and at 0: further than any number of
# the definitions is from its neighbour, and closer than anything that a float64 can tell.
STEP, STEP_AT_0 = 2.0**-100, -100_000


def evaluate(text: str, arrays: dict[str, list[np.ndarray]], oracle: str) -> dict[str, np.ndarray]:
    """Values and gradients under the names `op/exact/value`, `op/exact/grad0`, ..., each rounded once to float64.

    At a point, a gradient has two rows: the slope below the point and the slope above it. NaN is what the definition
    does not give. `op/exact/agreement` is how far mpmath and python-flint are apart where both were asked, NaN where
    one is missing.
    """
    jax.config.update("jax_enable_x64", True)  # literals of the definitions are float64
    numbers: Numbers = Mpmath() if oracle == "mpmath" else Arb()
    program = programs(text)
    found: dict[str, np.ndarray] = {}
    traced: dict[str, Any] = {}
    for key, inputs in arrays.items():
        name, _, point = key.partition("@")
        function = DEFINITIONS.get(name) or program(name)
        by = OPERATIONS[name].differentiable(inputs)
        run, args = differentiated(function, by), [jnp.asarray(array) for array in inputs]
        if point:
            if name not in traced:
                traced[name] = jax.make_jaxpr(run)(*args)
            found |= {f"{key}/exact/{part}": value for part, value in _at(numbers, traced[name], args, by)}
            continue
        value, gradients = exactly(run, *args, numbers=numbers)
        found[f"{key}/exact/value"] = numbers.floats(value)
        found |= {f"{key}/exact/grad{i}": numbers.floats(g) for i, g in enumerate(gradients)}
        found[f"{key}/exact/agreement"] = np.asarray(_agreement(function, _part(name, args), numbers))
    return found


def _part(name: str, args: list[Any]) -> list[Any]:
    return [arg[:CHECKED] for arg in args] if OPERATIONS[name].elementwise else args


def _agreement(function: Callable[..., Any], args: list[Any], numbers: Numbers) -> float:
    """The largest relative difference of mpmath's value and python-flint's, on a part of the inputs."""
    try:
        other: Numbers = Arb() if numbers.name == "mpmath" else Mpmath()
        second = exactly(function, *args, numbers=other)
    except (ImportError, Unknown):
        return float("nan")
    return agree(numbers, exactly(function, *args, numbers=numbers), other, second)


def _at(numbers: Numbers, traced: Any, args: list[Any], by: list[int]) -> Iterator[tuple[str, np.ndarray]]:
    """The value at a point, and the slopes on either side of it by each element of each input."""
    entered = [numbers.array(np.asarray(a)) if a.dtype.kind == "f" else a for a in args]
    shapes = [np.shape(aval) for aval in traced.out_avals]
    yield "value", _outputs(numbers, traced, entered, shapes)[0]
    undefined = any(np.isnan(arg).any() for arg in args)
    for gradient, i in enumerate(by):
        slopes = np.full((2, *np.shape(args[i])), np.nan)
        for place in np.ndindex(np.shape(args[i])) if not undefined else ():
            for side, sign in enumerate((-1, 1)):
                beside = list(entered)
                beside[i] = entered[i].copy()
                beside[i][place] = _beside(numbers, float(args[i][place]), sign)
                slopes[(side, *place)] = _outputs(numbers, traced, beside, shapes)[1 + gradient][place]
        yield f"grad{gradient}", slopes


def _outputs(numbers: Numbers, traced: Any, args: list[Any], shapes: list[Any]) -> list[np.ndarray]:
    try:
        return [numbers.floats(out) for out in evaluated_program(numbers, traced.jaxpr, traced.consts, args)]
    except (ArithmeticError, ValueError, TypeError, Unknown):  # a pole, a root of what is negative
        return [np.full(shape, np.nan) for shape in shapes]


def _beside(numbers: Numbers, value: float, sign: int) -> Any:
    number = numbers.number(value)
    if np.isinf(value):
        return number
    step = numbers.number(STEP * abs(value)) if value else numbers.number(2.0) ** STEP_AT_0
    return number + sign * step

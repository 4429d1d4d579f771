"""The rules of the interpreter: what each primitive computes on numbers of high precision."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity.oracle.contractions import convolve, dot_general
from parity.oracle.numbers import Numbers, Unknown, Value, is_floating
from parity.oracle.windows import reduced, select_and_scatter_add


def _targets(params: Any, operand: Value, indices: Any, updates: Value) -> np.ndarray:
    """Where each element of a scatter's updates goes in the flat operand; -1 for nowhere."""
    dimensions = params["dimension_numbers"]
    window = iter(
        updates.shape[axis] for axis in dimensions.update_window_dims
    )  # lengths of the window, in the operand's order of the axes that have one
    absent = {*dimensions.inserted_window_dims, *dimensions.operand_batching_dims}
    sizes = tuple(1 if axis in absent else next(window) for axis in range(operand.ndim))
    gathered = jax.lax.GatherDimensionNumbers(
        offset_dims=dimensions.update_window_dims,
        collapsed_slice_dims=dimensions.inserted_window_dims,
        start_index_map=dimensions.scatter_dims_to_operand_dims,
        operand_batching_dims=dimensions.operand_batching_dims,
        start_indices_batching_dims=dimensions.scatter_indices_batching_dims,
    )
    places = jnp.arange(operand.size, dtype=jnp.int32).reshape(operand.shape)
    found = jax.lax.gather(places, jnp.asarray(indices), gathered, sizes, mode="fill", fill_value=-1)
    return np.asarray(found)


def _scatter(combine: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    def run(numbers: Numbers, params: Any, operand: Value, indices: Any, updates: Value) -> Value:
        made = operand.reshape(-1).copy()
        targets = _targets(params, operand, indices, updates).reshape(-1)
        for place, update in zip(targets.tolist(), updates.reshape(-1), strict=True):
            if place >= 0:
                made[place] = combine(made[place], update)
        return made.reshape(operand.shape)

    return run


def converted(numbers: Numbers, value: Value, from_float: bool, dtype: Any) -> Value:
    """Between floats nothing is rounded: the oracle is of real numbers. To whole numbers it is cut off, as JAX does."""
    if from_float and is_floating(dtype):
        return value
    if is_floating(dtype):
        whole = np.asarray(value)
        made = np.empty(whole.size, object)
        made[:] = [
            numbers.number(int(n)) if abs(int(n)) < 2**53 else numbers.number(float(n)) for n in whole.reshape(-1)
        ]
        return made.reshape(whole.shape)
    if from_float:
        return jnp.asarray(np.trunc(numbers.floats(value)), dtype)
    return jnp.asarray(value).astype(dtype)


def _compared(test: Callable[[Numbers, Any, Any], bool]) -> Callable[..., Value]:
    def run(numbers: Numbers, params: Any, one: Value, other: Value) -> Value:
        found = np.frompyfunc(lambda a, b: test(numbers, a, b), 2, 1)(one, other)
        return jnp.asarray(np.asarray(found, bool))

    return run


def _at_most(numbers: Numbers, a: Any, b: Any) -> bool:
    return numbers.less(a, b) or numbers.equal(a, b)


def _reduced(name: str, empty: float) -> Callable[..., Value]:
    def run(numbers: Numbers, params: Any, value: Value) -> Value:
        function = numbers.functions[name]
        axes = tuple(params["axes"])
        kept = [axis for axis in range(value.ndim) if axis not in axes]
        rows = value.transpose(*kept, *axes).reshape(*(value.shape[axis] for axis in kept), -1)
        made = np.empty(rows.shape[:-1], object)
        for place in np.ndindex(made.shape):
            found = numbers.number(empty) if not rows.shape[-1] else None
            for element in rows[place]:
                found = element if found is None else function(found, element)
            made[place] = found
        return made

    return run


def _accumulated(name: str) -> Callable[..., Value]:
    def run(numbers: Numbers, params: Any, value: Value) -> Value:
        rows = np.moveaxis(value, params["axis"], -1)
        step = -1 if params["reverse"] else 1
        made = np.empty(rows.shape, object)
        for place in np.ndindex(rows.shape[:-1]):
            made[place] = list(accumulate(rows[place][::step], numbers.functions[name]))[::step]
        return np.moveaxis(made, -1, params["axis"])

    return run


def _extreme(better: Callable[[Numbers, Any, Any], bool]) -> Callable[..., Value]:
    """argmax and argmin: the first of equals."""

    def run(numbers: Numbers, params: Any, value: Value) -> Value:
        (axis,) = params["axes"]
        rows = np.moveaxis(value, axis, -1)
        made = np.zeros(rows.shape[:-1], np.int64)
        for place in np.ndindex(made.shape):
            row, best = rows[place], 0
            for i in range(1, len(row)):
                best = i if better(numbers, row[i], row[best]) else best
            made[place] = best
        return jnp.asarray(made, params["index_dtype"])

    return run


def _order(numbers: Numbers, row: Any, *, descending: bool = False) -> list[int]:
    """The places of a row's elements in order; equals as they stand."""

    def compare(i: int, j: int) -> int:
        a, b = (row[j], row[i]) if descending else (row[i], row[j])
        return -1 if numbers.less(a, b) else 1 if numbers.less(b, a) else 0

    return sorted(range(len(row)), key=cmp_to_key(compare))


def _sort(numbers: Numbers, params: Any, *values: Value) -> list[Value]:
    if params["num_keys"] != 1:
        raise Unknown("a sort by several keys is not known to the interpreter")
    axis = params["dimension"]
    rows = [np.moveaxis(np.asarray(value), axis, -1) for value in values]
    made = [np.empty_like(row) for row in rows]
    for place in np.ndindex(rows[0].shape[:-1]):
        order = _order(numbers, rows[0][place])
        for row, out in zip(rows, made, strict=True):
            out[place] = row[place][order]
    restored = [np.moveaxis(out, -1, axis) for out in made]
    return [value if value.dtype == object else jnp.asarray(value) for value in restored]


def _top_k(numbers: Numbers, params: Any, value: Value) -> list[Value]:
    k = params["k"]
    best, places = np.empty((*value.shape[:-1], k), object), np.zeros((*value.shape[:-1], k), np.int32)
    for place in np.ndindex(value.shape[:-1]):
        order = _order(numbers, value[place], descending=True)[:k]
        best[place], places[place] = value[place][order], order
    return [best, jnp.asarray(places)]


def _round(numbers: Numbers, params: Any, value: Value) -> Value:
    even = "EVEN" in str(params["rounding_method"])
    floats = numbers.floats(value)
    return numbers.array(np.rint(floats) if even else np.trunc(floats + np.copysign(0.5, floats)))


def _clamp(numbers: Numbers, params: Any, low: Value, value: Value, high: Value) -> Value:
    return numbers.apply("min", numbers.apply("max", value, low), high)


def _integer_power(numbers: Numbers, params: Any, value: Value) -> Value:
    y = params["y"]
    power = numbers.each(lambda x: x ** abs(y), value)
    return power if y >= 0 else numbers.apply("div", numbers.array(np.ones(value.shape)), power)


def _power(numbers: Numbers, params: Any, base: Value, exponent: Value) -> Value:
    if exponent.dtype != object:
        exponent = converted(numbers, exponent, False, np.float32)
    return numbers.apply("pow", base, np.broadcast_to(exponent, base.shape))


def _remainder(numbers: Numbers, params: Any, one: Value, other: Value) -> Value:
    whole = numbers.apply("div", one, other)
    floor, ceil = numbers.apply("floor", whole), numbers.apply("ceil", whole)
    zero = numbers.number(0.0)
    cut = numbers.each(lambda w, f, c: c if numbers.less(w, zero) else f, whole, floor, ceil)
    return numbers.each(lambda a, b, q: a - b * q, one, other, cut)


def _finite(numbers: Numbers, params: Any, value: Value) -> Value:
    return jnp.asarray(np.isfinite(numbers.floats(value)))


RULES: dict[str, Callable[..., Any]] = {
    "add_any": lambda numbers, params, a, b: numbers.apply("add", a, b),
    "argmax": _extreme(lambda numbers, a, b: numbers.less(b, a)),
    "argmin": _extreme(lambda numbers, a, b: numbers.less(a, b)),
    "clamp": _clamp,
    "conv_general_dilated": convolve,
    "cummax": _accumulated("max"),
    "cummin": _accumulated("min"),
    "cumprod": _accumulated("mul"),
    "cumsum": _accumulated("add"),
    "dot_general": dot_general,
    "eq": _compared(lambda numbers, a, b: numbers.equal(a, b)),
    "ge": _compared(lambda numbers, a, b: _at_most(numbers, b, a)),
    "gt": _compared(lambda numbers, a, b: numbers.less(b, a)),
    "integer_pow": _integer_power,
    "is_finite": _finite,
    "le": _compared(_at_most),
    "lt": _compared(lambda numbers, a, b: numbers.less(a, b)),
    "ne": _compared(lambda numbers, a, b: not numbers.equal(a, b)),
    "pow": _power,
    "reduce_max": _reduced("max", float("-inf")),
    "reduce_min": _reduced("min", float("inf")),
    "reduce_precision": lambda numbers, params, value: value,
    "reduce_prod": _reduced("mul", 1.0),
    "reduce_sum": _reduced("add", 0.0),
    "reduce_window_max": reduced("max", float("-inf")),
    "reduce_window_min": reduced("min", float("inf")),
    "reduce_window_sum": reduced("add", 0.0),
    "rem": _remainder,
    "round": _round,
    "scatter": _scatter(lambda old, new: new),
    "scatter-add": _scatter(lambda old, new: old + new),
    "scatter_add": _scatter(lambda old, new: old + new),
    "select_and_scatter_add": select_and_scatter_add,
    "sort": _sort,
    "stop_gradient": lambda numbers, params, value: value,
    "top_k": _top_k,
}

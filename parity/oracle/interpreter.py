"""A jaxpr evaluated on numbers of high precision.

Values of floating-point type are arrays of numbers; whole numbers, truth values and keys stay what they are and go
through JAX itself. Data movement goes through JAX too: on an array of indices, which then picks the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from parity.oracle.contractions import convolve, dot_general
from parity.oracle.numbers import Mpmath, Numbers

Value: TypeAlias = Any  # an object array of numbers, or an array of whole numbers, truth values or keys


class Unknown(NotImplementedError):
    """A primitive that the interpreter does not know."""


def exactly(function: Callable[..., Any], *args: Any, numbers: Numbers | None = None) -> Any:
    """`function(*args)` in high precision: its pytree, with arrays of numbers in the place of floating-point ones.

    Raises Unknown for a primitive that is not known, Undecided where a ball leaves a comparison open.
    """
    numbers = numbers or Mpmath()
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    flat = [_entered(numbers, leaf) for leaf in jax.tree.leaves(args)]
    results = evaluate(numbers, closed.jaxpr, closed.consts, flat)
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def _entered(numbers: Numbers, leaf: Any) -> Value:
    if isinstance(leaf, np.ndarray) and leaf.dtype == object:
        return leaf
    array = jnp.asarray(leaf) if not hasattr(leaf, "dtype") else leaf
    return numbers.array(np.asarray(array, np.float64)) if _is_float(array.dtype) else array


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def evaluate(numbers: Numbers, jaxpr: Any, consts: Sequence[Any], args: Sequence[Value]) -> list[Value]:
    """The outputs of a jaxpr whose inputs are `args`."""
    known: dict[Any, Value] = {}

    def read(atom: Any) -> Value:
        return _entered(numbers, atom.val) if isinstance(atom, Literal) else known[atom]

    known.update(zip(jaxpr.constvars, (_entered(numbers, const) for const in consts), strict=True))
    known.update(zip(jaxpr.invars, args, strict=True))
    for equation in jaxpr.eqns:
        results = _equation(numbers, equation, [read(atom) for atom in equation.invars])
        known.update(zip(equation.outvars, map(_boxed, results), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _boxed(value: Value) -> Value:
    """An array where numpy gave the one element of an array without axes."""
    if hasattr(value, "dtype"):
        return value
    made = np.empty((), object)
    made[()] = value
    return made


def _equation(numbers: Numbers, equation: Any, values: list[Value]) -> list[Value]:
    name, params = equation.primitive.name, equation.params
    floats_in = [_is_float(atom.aval.dtype) if hasattr(atom.aval, "dtype") else False for atom in equation.invars]
    if name in _CONTROL:
        return _CONTROL[name](numbers, params, values)
    if name == "convert_element_type":
        return [_converted(numbers, values[0], floats_in[0], params["new_dtype"])]
    if not any(floats_in):
        found = equation.primitive.bind(*values, **params)
        many = found if equation.primitive.multiple_results else [found]
        return [_entered(numbers, value) for value in many]
    if name in _MOVES:
        return _moved(equation, values, floats_in)
    if name in _RULES:
        result = _RULES[name](numbers, params, *values)
        return result if isinstance(result, list) else [result]
    if name in numbers.functions:
        return [numbers.apply(name, *values)]
    raise Unknown(f"the primitive {name!r} is not known to the interpreter")


# --- calls and loops --------------------------------------------------------------------------------------------------


def _call(name: str) -> Callable[..., list[Value]]:
    def run(numbers: Numbers, params: Any, values: list[Value]) -> list[Value]:
        inner = params[name]
        closed = hasattr(inner, "jaxpr")
        return evaluate(numbers, inner.jaxpr if closed else inner, inner.consts if closed else (), values)

    return run


def _scan(numbers: Numbers, params: Any, values: list[Value]) -> list[Value]:
    body, consts, carried = params["jaxpr"], params["num_consts"], params["num_carry"]
    fixed, carry, scanned = values[:consts], values[consts : consts + carried], values[consts + carried :]
    order = range(params["length"])
    outputs: list[list[Value]] = []
    for i in reversed(order) if params["reverse"] else order:
        found = evaluate(numbers, body.jaxpr, body.consts, [*fixed, *carry, *(_boxed(value[i]) for value in scanned)])
        carry = found[:carried]
        outputs.append(found[carried:])
    if params["reverse"]:
        outputs.reverse()
    avals = body.out_avals[carried:]
    stacked = [_stacked([output[k] for output in outputs], aval) for k, aval in enumerate(avals)]
    return [*carry, *stacked]


def _stacked(parts: list[Value], aval: Any) -> Value:
    if not _is_float(aval.dtype):
        return jnp.stack([jnp.asarray(part) for part in parts]) if parts else jnp.zeros((0, *aval.shape), aval.dtype)
    made = np.empty((len(parts), *aval.shape), object)
    for i, part in enumerate(parts):
        made[i] = part
    return made


def _while(numbers: Numbers, params: Any, values: list[Value]) -> list[Value]:
    tested, done = params["cond_nconsts"], params["body_nconsts"]
    carry = values[tested + done :]
    while bool(_run(numbers, params["cond_jaxpr"], [*values[:tested], *carry])[0]):
        carry = _run(numbers, params["body_jaxpr"], [*values[tested : tested + done], *carry])
    return carry


def _cond(numbers: Numbers, params: Any, values: list[Value]) -> list[Value]:
    branches = params["branches"]
    return _run(numbers, branches[int(np.clip(int(values[0]), 0, len(branches) - 1))], values[1:])


def _run(numbers: Numbers, closed: Any, values: list[Value]) -> list[Value]:
    return evaluate(numbers, closed.jaxpr, closed.consts, values)


_CONTROL: dict[str, Callable[..., list[Value]]] = {
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "custom_vjp_call": _call("call_jaxpr"),
    "custom_vjp_call_jaxpr": _call("fun_jaxpr"),
    "checkpoint": _call("jaxpr"),
    "remat2": _call("jaxpr"),
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}

# --- data movement ----------------------------------------------------------------------------------------------------

_MOVES = {
    "broadcast_in_dim", "concatenate", "copy", "copy_p", "dynamic_slice", "dynamic_update_slice", "expand_dims",
    "gather", "pad", "reshape", "rev", "select_n", "slice", "split", "squeeze", "transpose", "optimization_barrier",
}  # fmt: skip


def _moved(equation: Any, values: list[Value], floats_in: list[bool]) -> list[Value]:
    """The primitive on indices of all numbers that go in, laid end to end; then the numbers that they pick."""
    sizes = [value.size if is_float else 0 for value, is_float in zip(values, floats_in, strict=True)]
    starts = [0, *accumulate(sizes)]
    indices = [
        jnp.arange(start, start + value.size, dtype=jnp.int32).reshape(value.shape) if is_float else value
        for value, start, is_float in zip(values, starts, floats_in, strict=False)
    ]
    params = dict(equation.params)
    if equation.primitive.name == "gather":
        params["fill_value"] = -1
    found = equation.primitive.bind(*indices, **params)
    pool = np.empty(starts[-1] + 1, object)
    for value, start, is_float in zip(values, starts, floats_in, strict=False):
        if is_float:
            pool[start : start + value.size] = value.reshape(-1)
    pool[-1] = float("nan")  # what a gather that reaches outside is filled with
    many = found if equation.primitive.multiple_results else [found]
    floats_out = [_is_float(atom.aval.dtype) for atom in equation.outvars]
    return [
        pool[np.asarray(index)] if is_float else index for index, is_float in zip(many, floats_out, strict=True)
    ]  # fmt: skip


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


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _converted(numbers: Numbers, value: Value, from_float: bool, dtype: Any) -> Value:
    """Between floats nothing is rounded: the oracle is of real numbers. To whole numbers it is cut off, as JAX does."""
    if from_float and _is_float(dtype):
        return value
    if _is_float(dtype):
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
    from functools import cmp_to_key

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
        exponent = _converted(numbers, exponent, False, np.float32)
    return numbers.apply("pow", base, np.broadcast_to(exponent, base.shape))


def _remainder(numbers: Numbers, params: Any, one: Value, other: Value) -> Value:
    whole = numbers.apply("div", one, other)
    floor, ceil = numbers.apply("floor", whole), numbers.apply("ceil", whole)
    zero = numbers.number(0.0)
    cut = numbers.each(lambda w, f, c: c if numbers.less(w, zero) else f, whole, floor, ceil)
    return numbers.each(lambda a, b, q: a - b * q, one, other, cut)


def _finite(numbers: Numbers, params: Any, value: Value) -> Value:
    return jnp.asarray(np.isfinite(numbers.floats(value)))


_RULES: dict[str, Callable[..., Any]] = {
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
    "rem": _remainder,
    "round": _round,
    "scatter": _scatter(lambda old, new: new),
    "scatter-add": _scatter(lambda old, new: old + new),
    "scatter_add": _scatter(lambda old, new: old + new),
    "sort": _sort,
    "stop_gradient": lambda numbers, params, value: value,
    "top_k": _top_k,
}

"""A jaxpr evaluated on numbers of high precision.

Values of floating-point type are arrays of numbers; whole numbers, truth values and keys stay what they are and go
through JAX itself. Data movement goes through JAX too: on an array of indices, which then picks the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from parity.oracle.arithmetic import RULES, converted
from parity.oracle.movement import MOVES, moved
from parity.oracle.numbers import Arb, Mpmath, Numbers, Unknown, Value, is_floating


def exactly(function: Callable[..., Any], *args: Any, numbers: Numbers | None = None) -> Any:
    """`function(*args)` in high precision: its pytree, with arrays of numbers in the place of floating-point ones.

    Raises Unknown for a primitive that is not known, Undecided where a ball leaves a comparison open.
    """
    numbers = numbers or Mpmath()
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    flat = [_entered(numbers, leaf) for leaf in jax.tree.leaves(args)]
    results = evaluate(numbers, closed.jaxpr, closed.consts, flat)
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def evaluated(function: Callable[[], Any], oracle: str) -> str:
    """Traces what takes no arguments and evaluates it for its callbacks, which get float64; says which oracle it was.

    The trace is of the whole function, also where `jax.disable_jit` is on.
    """
    numbers: Numbers = Mpmath() if oracle == "mpmath" else Arb()
    with jax.disable_jit(False):
        results = jax.tree.leaves(exactly(function, numbers=numbers))
    widest = max((numbers.radius(result) for result in results if result.dtype == object), default=0.0)
    certified = f", certified within {widest:.0e}" if widest else ""
    return f"{numbers.name}, {numbers.bits} bits{certified}"


def _entered(numbers: Numbers, leaf: Any) -> Value:
    if isinstance(leaf, np.ndarray) and leaf.dtype == object:
        return leaf
    array = jnp.asarray(leaf) if not hasattr(leaf, "dtype") else leaf
    return numbers.array(np.asarray(array, np.float64)) if is_floating(array.dtype) else array


def evaluate(numbers: Numbers, jaxpr: Any, consts: Sequence[Any], args: Sequence[Value]) -> list[Value]:
    """The outputs of a jaxpr whose inputs are `args`."""
    known: dict[Any, Value] = {}

    def read(atom: Any) -> Value:
        return _entered(numbers, atom.val) if isinstance(atom, Literal) else known[atom]

    known.update(zip(jaxpr.constvars, (_entered(numbers, const) for const in consts), strict=True))
    known.update(zip(jaxpr.invars, args, strict=True))
    for equation, done in zip(jaxpr.eqns, _last_uses(jaxpr), strict=True):
        results = _equation(numbers, equation, [read(atom) for atom in equation.invars])
        known.update(zip(equation.outvars, map(_boxed, results), strict=True))
        for atom in done:
            known.pop(atom, None)
    return [read(atom) for atom in jaxpr.outvars]


def _last_uses(jaxpr: Any) -> list[list[Any]]:
    """For each equation what no later one reads: a number of high precision takes the room of a dozen floats."""
    seen = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
    uses: list[list[Any]] = []
    for equation in reversed(jaxpr.eqns):
        read = {atom for atom in equation.invars if not isinstance(atom, Literal)}
        uses.append([atom for atom in (*read, *equation.outvars) if atom not in seen])
        seen |= read
    return uses[::-1]


def _boxed(value: Value) -> Value:
    """An array where numpy gave the one element of an array without axes."""
    if hasattr(value, "dtype"):
        return value
    made = np.empty((), object)
    made[()] = value
    return made


def _equation(numbers: Numbers, equation: Any, values: list[Value]) -> list[Value]:
    name, params = equation.primitive.name, equation.params
    floats_in = [is_floating(atom.aval.dtype) if hasattr(atom.aval, "dtype") else False for atom in equation.invars]
    if name in _CONTROL:
        return _CONTROL[name](numbers, params, values)
    if name == "convert_element_type":
        return [converted(numbers, values[0], floats_in[0], params["new_dtype"])]
    if not any(floats_in):
        found = equation.primitive.bind(*values, **params)
        many = found if equation.primitive.multiple_results else [found]
        return [_entered(numbers, value) for value in many]
    if name in MOVES:
        return moved(equation, values, floats_in)
    if name in RULES:
        result = RULES[name](numbers, params, *values)
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
    if not is_floating(aval.dtype):
        return jnp.stack([jnp.asarray(part) for part in parts]) if parts else jnp.zeros((0, *aval.shape), aval.dtype)
    made = np.empty((len(parts), *aval.shape), object)
    for i, part in enumerate(parts):
        made[i] = part
    return made


def _callback(numbers: Numbers, params: Any, values: list[Value]) -> list[Value]:
    """What looks at values gets the float64 nearest to each."""
    params["callback"](*(numbers.floats(value) if value.dtype == object else value for value in values))
    return []


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
    "debug_callback": _callback,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}

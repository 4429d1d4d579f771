"""Norms. The gradient of a norm of 0 is 0 in torch and NaN in JAX, unless that is told."""

import math

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Number
from migrate.rules.rule import Call, axes, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _given(call: Call, *names: str) -> dict[str, Expr]:
    renamed = {"p": "ord", "ord": "ord", "dim": "axis", "keepdim": "keepdims"}
    found = {renamed[name]: call.node(name) for name in names if call.has(name)}
    return found | ({"axis": axes(call, "dim")} if "axis" in found else {})


def _euclidean(call: Call, x: Expr, given: dict[str, Expr], function: str = "norm") -> Expr:
    """A norm of order 2, with torch's gradient where jit may take one."""
    over = given.get("axis")
    several = len(over.elements) if isinstance(over, cst.Tuple) else 1
    if call.traced and several <= 2:
        return nodes.call("optax.safe_norm", x, cst.Float("0.0"), **given)
    return nodes.call(f"jnp.linalg.{function}", x, **given)


def of_order(call: Call, x: Expr, name: str, given: dict[str, Expr]) -> Expr:
    """A norm of vectors of the order that the argument `name` says, likewise."""
    order = _order(call, name)
    if order == 1:
        return _of_order_one(call, x, **given)
    bends = call.traced and order != 0 and not _infinite(call.node(name))
    function = call.snippet("vector_norm") if bends else "jnp.linalg.vector_norm"
    return nodes.call(function, x, ord=call.node(name), **given)


def _order(call: Call, name: str) -> object:
    """The order of a norm where it is written out. Declines negative ones where jit may take a gradient, which at zeros
    is another one."""
    order = nodes.literal(call.node(name))
    negative = isinstance(order, int | float) and order < 0
    if call.traced and (negative or nodes.code(call.node(name)).startswith("-")):
        raise Unsupported("MIG302", f"{call.api}: a norm of negative order")
    return order


def _infinite(order: Expr) -> bool:
    return "inf" in nodes.code(order)


def _of_order_one(call: Call, x: Expr, **given: Expr) -> Expr:
    """The sum of the absolute values, likewise."""
    if not call.traced:
        return nodes.call("jnp.linalg.vector_norm", x, ord=cst.Integer("1"), **given)
    return nodes.call(nodes.expression(f"{call.snippet('absolute')}({{x}}).sum", x=x), **given)


@rule("torch.norm", "Tensor.norm", signature="input, p='fro', dim=None, keepdim=False, dtype=None", dtype="float")
def norm(call: Call) -> Expr:
    """Of the flattened tensor without `dim`, whatever p is; over several axes a norm of vectors too.

    >>> x.norm(2, dim=1)  # x: f32[2, 3]
    optax.safe_norm(x, 0.0, axis=1)
    >>> torch.norm(x, dim=1, keepdim=True)  # x: f32[2, 3]
    optax.safe_norm(x, 0.0, axis=1, keepdims=True)
    >>> x.norm()  # x: f32[2, 3, 4]
    optax.safe_norm(x, 0.0)
    >>> x.norm()  # x: f32[2, 3, 4]; on the host
    jnp.linalg.norm(x)
    >>> x.norm(p=1)  # x: f32[2, 3]
    absolute(x).sum()
    >>> torch.norm(x, p=torch.inf, dim=(0, 2))  # x: f32[2, 3, 4]
    jnp.linalg.vector_norm(x, ord=jnp.inf, axis=(0, 2))
    """
    call.only("dtype", None)
    p = nodes.literal(call.node("p"))
    if p == "nuc":
        return nodes.call("jnp.linalg.norm", call.node("input"), **_given(call, "p", "dim", "keepdim"))
    if p is None or p == "fro" or p == 2:
        several = call.has("dim") and isinstance(call.kind("dim"), Items)
        if call.has("keepdim") and not call.has("dim"):
            several = True
        name = "vector_norm" if several else "norm"
        return _euclidean(call, call.node("input"), _given(call, "dim", "keepdim"), name)
    if isinstance(p, str):
        raise Unsupported("MIG302", f"{call.api}: there is no norm {p!r}")
    return of_order(call, call.node("input"), "p", _given(call, "dim", "keepdim"))


@rule("torch.linalg.norm", signature="input, ord=None, dim=None, keepdim=False, *, dtype=None", dtype="float")
def linalg_norm(call: Call) -> Expr:
    """Of the flattened tensor without `dim` and `ord`; two axes are those of matrices. With ord=2 and without `dim` the
    gradient at 0 is NaN unless the source shows a vector.

    >>> torch.linalg.norm(x)  # x: f32[2, 3]
    optax.safe_norm(x, 0.0)
    >>> torch.linalg.norm(x, dim=-1, keepdim=True)  # x: f32[2, 3]
    optax.safe_norm(x, 0.0, axis=-1, keepdims=True)
    >>> torch.linalg.norm(x, ord=1, dim=(1, 2))  # x: f32[2, 3, 4]
    jnp.linalg.norm(absolute(x), ord=1, axis=(1, 2))
    >>> torch.linalg.norm(x, 3, dim=1)  # x: f32[2, 3]
    vector_norm(x, ord=3, axis=1)
    """
    call.only("dtype", None)
    given = _given(call, "dim", "keepdim")
    order = _order(call, "ord")
    of_vectors = isinstance(call.kind("dim"), Number) and call.has("dim")
    of_vectors |= call.rank("input") == 1 or (isinstance(order, int | float) and abs(order) not in (1, 2, math.inf))
    if not call.has("ord") or order == "fro" or (of_vectors and order == 2):
        return _euclidean(call, call.node("input"), given)
    if of_vectors:
        return of_order(call, call.node("input"), "ord", given)
    return nodes.call("jnp.linalg.norm", _of_sums(call, "input"), **_given(call, "ord", "dim", "keepdim"))


def _of_sums(call: Call, name: str) -> Expr:
    """What a norm of matrices is of: where it is the largest sum of absolute values, their gradient at 0 is torch's."""
    x = call.node(name)
    sums = nodes.literal(call.node("ord")) == 1 or _infinite(call.node("ord"))
    return nodes.call(call.snippet("absolute"), x) if sums and call.traced else x


@rule("torch.linalg.vector_norm", signature="x, ord=2, dim=None, keepdim=False, *, dtype=None", dtype="float")
def vector_norm(call: Call) -> Expr:
    """Of the flattened tensor without `dim`.

    >>> torch.linalg.vector_norm(x, dim=-1)  # x: f32[2, 3]
    optax.safe_norm(x, 0.0, axis=-1)
    >>> torch.linalg.vector_norm(x, ord=3)  # x: f32[2, 3]
    vector_norm(x, ord=3)
    """
    call.only("dtype", None)
    given = _given(call, "dim", "keepdim")
    if not call.has("ord"):
        return _euclidean(call, call.node("x"), given, "vector_norm")
    return of_order(call, call.node("x"), "ord", given)


@rule("torch.linalg.matrix_norm", signature="A, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None", dtype="float")
def matrix_norm(call: Call) -> Expr:
    """Of the last two axes.

    >>> torch.linalg.matrix_norm(x)  # x: f32[2, 3, 4]
    optax.safe_norm(x, 0.0, axis=(-2, -1))
    >>> torch.linalg.matrix_norm(x, ord=1, keepdim=True)  # x: f32[2, 3, 4]
    jnp.linalg.matrix_norm(absolute(x), ord=1, keepdims=True)
    """
    call.only("dtype", None)
    call.only("dim", (-2, -1))
    if not call.has("ord"):
        over = {"axis": nodes.expression("(-2, -1)")}
        return _euclidean(call, call.node("A"), over | _given(call, "keepdim"), "vector_norm")
    return nodes.call("jnp.linalg.matrix_norm", _of_sums(call, "A"), **_given(call, "ord", "keepdim"))


@rule("torch.dist", "Tensor.dist", signature="input, other, p=2", dtype="float")
def dist(call: Call) -> Expr:
    """The norm of the difference, of all elements.

    >>> torch.dist(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    optax.safe_norm(x - y, 0.0)
    >>> torch.dist(x, y, p=1)  # x: f32[2, 3]; y: f32[3]
    absolute(x - y).sum()
    """
    difference = call.make("{input} - {other}")
    if not call.has("p"):
        return _euclidean(call, difference, {})
    return of_order(call, difference, "p", {})


@rule(
    "torch.nn.functional.pairwise_distance", "torch.pairwise_distance",
    signature="x1, x2, p=2.0, eps=1e-06, keepdim=False", dtype="float",
)  # fmt: skip
def pairwise_distance(call: Call) -> Expr:
    """Adds eps to the difference, which is then zero by chance alone.

    >>> F.pairwise_distance(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.linalg.norm(x - y + 1e-06, axis=-1)
    >>> F.pairwise_distance(x, y, p=1, eps=0)  # x: f32[2, 3]; y: f32[2, 3]
    absolute(x - y).sum(axis=-1)
    """
    without = call.literal("eps") == 0
    difference = call.make("{x1} - {x2}" if without else "{x1} - {x2} + {eps}")
    given = {"axis": nodes.expression("-1"), **call.given(keepdim="keepdims")}
    if call.has("p") and call.literal("p") != 2:
        return of_order(call, difference, "p", given)
    return _euclidean(call, difference, given) if without else nodes.call("jnp.linalg.norm", difference, **given)

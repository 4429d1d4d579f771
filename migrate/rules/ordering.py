"""Order statistics, counting, and running maxima."""

from functools import partial

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Tensor
from migrate.rules.rule import Call, Rule, Value, axes, plain, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_plain = partial(plain, family="ordering")

_plain(
    "torch.msort Tensor.msort", "input", "jnp.sort({input}, axis=0)", "Along the first axis, the values alone.",
    "torch.msort(x)  # x: spread[4, 3] -> jnp.sort(x, axis=0)",
)  # fmt: skip
_plain(
    "torch.isin", "elements, test_elements", "jnp.isin({elements}, {test_elements})", "Whether each is among them.",
    "torch.isin(x, y)  # x: idx5[2, 3]; y: idx5[2] -> jnp.isin(x, y)", dtype="bool",
)  # fmt: skip
_plain(
    "torch.logcumsumexp Tensor.logcumsumexp", "input, dim", "jax.lax.cumlogsumexp({input}, {dim})",
    "The axis counts from the front in JAX.",
    "torch.logcumsumexp(x, 1)  # x: f32[2, 3] -> jax.lax.cumlogsumexp(x, 1)", dtype="float",
)  # fmt: skip


def _tensors(call: Call, count: int = 2) -> Items:
    kind = call.kind("input")
    values = Tensor(kind.dtype if isinstance(kind, Tensor) else "")
    return Items((values, Tensor("int")) if count == 2 else (values,) * count, type="tuple")


@rule("torch.median", "Tensor.median", signature="input, dim=None, keepdim=False")
def median(call: Call) -> Value:
    """The lower of the two in the middle, where numpy takes their mean; with an axis, its index too.

    >>> torch.median(x)  # x: spread[2, 3]
    median(x)
    >>> x.median(dim=1)  # x: spread[2, 4]
    median(x, axis=1)
    """
    call.snippet("median")
    made = nodes.call("median", call.node("input"), **call.given(dim="axis", keepdim="keepdims"))
    kind = call.kind("input")
    return Value(made, _tensors(call) if call.has("dim") else Tensor(kind.dtype if isinstance(kind, Tensor) else "", 0))


@rule(
    "torch.unique_consecutive",
    "Tensor.unique_consecutive",
    signature="input, return_inverse=False, return_counts=False, dim=None",
)
def unique_consecutive(call: Call) -> Value:
    """Of the flattened tensor; how many there are depends on the data.

    >>> torch.unique_consecutive(x)  # x: idx2[6]; on the host
    unique_consecutive(x)
    >>> x.unique_consecutive(return_inverse=True, return_counts=True)  # x: idx2[2, 3]; on the host
    unique_consecutive(x, return_inverse=True, return_counts=True)
    """
    call.on_host(call.api)
    call.only("dim", None)
    call.snippet("unique_consecutive")
    kind = call.kind("input")
    found = [Tensor(kind.dtype if isinstance(kind, Tensor) else "")]
    for name in ("return_inverse", "return_counts"):
        call.only(name, True, False)
        found += [Tensor("int")] if call.literal(name) else []
    made = nodes.call("unique_consecutive", call.node("input"), **call.given("return_inverse", "return_counts"))
    return Value(made, Items(tuple(found), type="tuple") if len(found) > 1 else found[0])


@rule("torch.kthvalue", "Tensor.kthvalue", signature="input, k, dim=-1, keepdim=False")
def kthvalue(call: Call) -> Value:
    """The k-th smallest, counted from 1, and its index; of equal values any in torch.

    >>> torch.kthvalue(x, 2)  # x: spread[3, 5]
    kthvalue(x, 2)
    >>> x.kthvalue(1, dim=0, keepdim=True)  # x: spread[3, 5]
    kthvalue(x, 1, axis=0, keepdims=True)
    """
    call.snippet("kthvalue")
    more = call.given(dim="axis", keepdim="keepdims")
    return Value(nodes.call("kthvalue", call.node("input"), call.node("k"), **more), _tensors(call))


def _running(name: str) -> Rule:
    def function(call: Call) -> Value:
        call.snippet(name)
        return Value(call.make(f"{name}({{input}}, {{dim}})"), _tensors(call))

    doc = (
        "The largest so far and its index, the last one of equal values.\n\n"
        f"    >>> torch.{name}(x, 1)  # x: spread[2, 5]\n    {name}(x, 1)\n"
    ).replace("largest", "largest" if name == "cummax" else "smallest")
    return Rule((f"torch.{name}", f"Tensor.{name}"), signature("input, dim"), function, False, "", doc, "ordering")


register(_running("cummax"))
register(_running("cummin"))


def _quantile(name: str) -> Rule:
    def function(call: Call) -> Expr:
        more = call.given(dim="axis", keepdim="keepdims", interpolation="method")
        return nodes.call(f"jnp.{name}", call.node("input"), call.node("q"), **more)

    doc = (
        f"Linear interpolation by default.\n\n"
        f"    >>> torch.{name}(x, 0.3)  # x: spread[2, 3]\n    jnp.{name}(x, 0.3)\n"
        f"    >>> x.{name}(0.5, dim=1, keepdim=True)  # x: spread[2, 4]\n"
        f"    jnp.{name}(x, 0.5, axis=1, keepdims=True)\n"
    )
    parameters = signature("input, q, dim=None, keepdim=False, *, interpolation='linear'")
    return Rule((f"torch.{name}", f"Tensor.{name}"), parameters, function, False, "float", doc, "ordering")


register(_quantile("quantile"))
register(_quantile("nanquantile"))


@rule("torch.bucketize", signature="input, boundaries, *, out_int32=False, right=False", dtype="int")
def bucketize(call: Call) -> Expr:
    """searchsorted with its arguments the other way round.

    >>> torch.bucketize(x, y)  # x: f32[2, 3]; y: sorted[7]
    jnp.searchsorted(y, x)
    >>> torch.bucketize(x, y, right=True)  # x: f32[4]; y: sorted[7]
    jnp.searchsorted(y, x, side="right")
    """
    call.only("right", True, False)
    side = ', side="right"' if call.literal("right") else ""
    return call.make(f"jnp.searchsorted({{boundaries}}, {{input}}{side})")


@rule("torch.histc", "Tensor.histc", signature="input, bins=100, min=0, max=0", dtype="float")
def histc(call: Call) -> Expr:
    """Counts as floats; between the smallest and the largest value where min and max are equal.

    >>> torch.histc(x, bins=5, min=-2, max=2)  # x: spread[12]
    jnp.histogram(x, bins=5, range=(-2, 2))[0]
    >>> torch.histc(x, 4)  # x: spread[12]
    jnp.histogram(x, bins=4)[0]
    """
    if not call.has("min") and not call.has("max"):
        return call.make("jnp.histogram({input}, bins={bins})[0]")
    if call.literal("min") == call.literal("max"):
        raise Unsupported("MIG302", f"{call.api}: min and max that are equal")
    return call.make("jnp.histogram({input}, bins={bins}, range=({min}, {max}))[0]")


@rule("torch.aminmax", "Tensor.aminmax", signature="input, *, dim=None, keepdim=False")
def aminmax(call: Call) -> Value:
    """Both at once.

    >>> torch.aminmax(x, dim=1)  # x: f32[2, 3]
    (x.min(axis=1), x.max(axis=1))
    """
    more = call.given(dim="axis", keepdim="keepdims")
    parts = [nodes.call(call.make("{input}." + name), **more) for name in ("min", "max")]
    return Value(nodes.tuple_of(parts), _tensors(call, 3 - 1))


def _without_nan(name: str) -> Rule:
    def function(call: Call) -> Expr:
        more = {"axis": axes(call, "dim")} if call.has("dim") else {}
        more |= call.given("dtype", keepdim="keepdims")
        return nodes.call(f"jnp.{name}", call.node("input"), **more)

    doc = (
        f"As if NaN were not there.\n\n    >>> torch.{name}(x)  # x: f32[2, 3]\n    jnp.{name}(x)\n"
        f"    >>> x.{name}(dim=1, keepdim=True)  # x: f32[2, 3]\n    jnp.{name}(x, axis=1, keepdims=True)\n"
    )
    parameters = signature("input, dim=None, keepdim=False, *, dtype=None")
    return Rule((f"torch.{name}", f"Tensor.{name}"), parameters, function, False, "", doc, "ordering")


register(_without_nan("nansum"))
register(_without_nan("nanmean"))


@rule("torch.trapezoid", "torch.trapz", signature="y, x=None, *, dx=None, dim=-1", dtype="float")
def trapezoid(call: Call) -> Expr:
    """Spaced by 1 by default.

    >>> torch.trapezoid(x, dx=0.5)  # x: f32[2, 5]
    jnp.trapezoid(x, dx=0.5)
    >>> torch.trapezoid(x, y, dim=0)  # x: f32[5, 2]; y: f32[5, 2]
    jnp.trapezoid(x, y, axis=0)
    """
    positional = [call.node("x")] if call.has("x") else []
    return nodes.call("jnp.trapezoid", call.node("y"), *positional, **call.given("dx", dim="axis"))


@rule("torch.cov", "Tensor.cov", signature="input, *, correction=1, fweights=None, aweights=None", dtype="float")
def cov(call: Call) -> Expr:
    """Variables are rows.

    >>> torch.cov(x)  # x: f32[3, 5]
    jnp.cov(x)
    """
    for name in ("fweights", "aweights"):
        call.only(name, None)
    return nodes.call("jnp.cov", call.node("input"), **call.given(correction="ddof"))


_plain(
    "torch.corrcoef Tensor.corrcoef", "input", "jnp.corrcoef({input})", "Variables are rows.",
    "torch.corrcoef(x)  # x: f32[3, 5] -> jnp.corrcoef(x)", dtype="float",
)  # fmt: skip

"""Reductions. torch says `dim` and `keepdim` where numpy says `axis` and `keepdims`."""

from migrate.known.kinds import Items, Tensor
from migrate.rules.rule import Call, Rule, Value, axes, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _keywords(call: Call) -> dict[str, Expr]:
    keywords = {}
    if call.has("dim"):
        keywords["axis"] = axes(call, "dim")
    if call.has("keepdim"):
        keywords["keepdims"] = call.node("keepdim")
    if call.has("dtype"):
        keywords["dtype"] = call.node("dtype")
    return keywords


def _reduced(call: Call, function: str) -> Expr:
    keywords = _keywords(call)
    if function.startswith("jnp."):
        return nodes.call(function, call.node("input"), **keywords)
    return nodes.call(nodes.expression(f"{{input}}.{function}", input=call.node("input")), **keywords)


def _reduction(name: str, dtype: str, example: str) -> Rule:
    def function(call: Call) -> Value:
        made = {"like": "float" if name == "mean" else "", "bool": "bool"}[dtype]
        kind = call.kind("input")
        rank = 0 if not call.has("dim") and isinstance(kind, Tensor) else -1
        return Value(_reduced(call, name), Tensor(made, rank))

    doc = (
        f"Over all axes by default.\n\n    >>> torch.{name}(x)  # x: {example}[2, 3]\n    x.{name}()\n"
        f"    >>> x.{name}(dim=1, keepdim=True)  # x: {example}[2, 3]\n    x.{name}(axis=1, keepdims=True)\n"
        f"    >>> x.{name}(-1)  # x: {example}[2, 3]\n    x.{name}(axis=-1)\n"
    )
    names = (f"torch.{name}", f"Tensor.{name}")
    return Rule(
        names, signature("input, dim=None, keepdim=False, *, dtype=None"), function, False, dtype, doc, "reductions"
    )


for _name, _dtype, _example in (
    ("sum", "like", "f32"),
    ("mean", "like", "f32"),
    ("all", "bool", "bool"),
    ("any", "bool", "bool"),
):
    register(_reduction(_name, _dtype, _example))


@rule("torch.prod", "Tensor.prod", signature="input, dim=None, keepdim=False, *, dtype=None")
def prod(call: Call) -> Expr:
    """One axis only in torch.

    >>> torch.prod(x, 1)  # x: f32[2, 3]
    x.prod(axis=1)
    """
    return _reduced(call, "prod")


def _unbiased_first(call: Call) -> None:
    """`x.std(False)` is the overload whose first argument is `unbiased`."""
    if isinstance(nodes.literal(call.bound["dim"].node) if "dim" in call.bound else None, bool):
        rest = {name: value for name, value in call.bound.items() if name != "dim"}
        call.bound = {**rest, "unbiased": call.bound["dim"]}


def _spread(call: Call, function: str) -> Expr:
    _unbiased_first(call)
    node = _reduced(call, function)
    correction = 1
    if call.has("unbiased"):
        correction = 1 if call.literal("unbiased") else 0
    elif call.has("correction"):
        correction = 1 if call.literal("correction") is None else call.literal("correction")
    extra = nodes.arguments([], {"ddof": nodes.expression(str(correction))} if correction else {})
    import libcst as cst

    assert isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    if function == "std" and call.traced:
        smooth = nodes.name(call.snippet("standard_deviation"))
        return cst.Call(smooth, [*nodes.arguments([call.node("input")]), *node.args, *extra])
    return node.with_changes(args=[*node.args, *extra])


@rule(
    "torch.var", "Tensor.var", signature="input, dim=None, unbiased=True, keepdim=False, *, correction=1", dtype="float"
)
def var(call: Call) -> Expr:
    """Divides by N - 1 by default, numpy by N.

    >>> torch.var(x, dim=1)  # x: f32[2, 3]
    x.var(axis=1, ddof=1)
    >>> x.var(dim=-1, unbiased=False, keepdim=True)  # x: f32[2, 3]
    x.var(axis=-1, keepdims=True)
    """
    return _spread(call, "var")


@rule(
    "torch.std", "Tensor.std", signature="input, dim=None, unbiased=True, keepdim=False, *, correction=1", dtype="float"
)
def std(call: Call) -> Expr:
    """Divides by N - 1 by default, numpy by N. The gradient where all are equal is 0 in torch and NaN in JAX, unless
    that is told.

    >>> torch.std(x, dim=1)  # x: f32[2, 3]
    standard_deviation(x, axis=1, ddof=1)
    >>> x.std(False)  # x: f32[2, 3]
    standard_deviation(x)
    >>> x.std()  # x: f32[2, 3]; on the host
    x.std(ddof=1)
    """
    return _spread(call, "std")


_TAKING = {"max": "largest", "min": "smallest"}


def _taken(call: Call, name: str) -> Expr:
    """The element that has the largest, or the smallest value."""
    return nodes.call(call.snippet(_TAKING[name]), call.node("input"), **_keywords(call))


def _extreme(name: str) -> Rule:
    def function(call: Call) -> Value:
        kind = call.kind("input")
        dtype = kind.dtype if isinstance(kind, Tensor) else ""
        if not call.has("dim"):
            return Value(_reduced(call, name), Tensor(dtype, 0))
        if isinstance(call.kind("dim"), Tensor):
            return Value(call.make(f"jnp.{name}imum({{input}}, {{dim}})"), Tensor(dtype))
        taken = call.traced and call.differentiable and dtype not in ("int", "bool")
        values = _taken(call, name) if taken else _reduced(call, name)
        pair = nodes.tuple_of([values, _reduced(call, f"arg{name}")])
        return Value(pair, Items((Tensor(dtype), Tensor("int")), type="tuple"))

    doc = (
        "With an axis, the values and their indices. Of equal values the first is taken, which has the gradient. "
        f"`x.{name}(axis)` would share it among them, and lose it where XLA computes `x` twice.\n\n"
        f"    >>> torch.{name}(x)  # x: f32[2, 3]\n    x.{name}()\n"
        f"    >>> torch.{name}(x, 1)  # x: f32[2, 3]\n    ({_TAKING[name]}(x, axis=1), x.arg{name}(axis=1))\n"
        f"    >>> torch.{name}(x, 1)  # x: f32[2, 3]; on the host\n    (x.{name}(axis=1), x.arg{name}(axis=1))\n"
    )
    names = (f"torch.{name}", f"Tensor.{name}")
    return Rule(names, signature("input, dim=None, keepdim=False"), function, False, "", doc, "reductions")


register(_extreme("max"))
register(_extreme("min"))


@rule("torch.amax", "Tensor.amax", signature="input, dim=None, keepdim=False")
def amax(call: Call) -> Expr:
    """Shares the gradient among equal values, as JAX does.

    >>> x.amax(dim=1)  # x: f32[2, 3]
    x.max(axis=1)
    """
    return _reduced(call, "max")


@rule("torch.amin", "Tensor.amin", signature="input, dim=None, keepdim=False")
def amin(call: Call) -> Expr:
    """Shares the gradient among equal values, as JAX does.

    >>> x.amin(dim=1)  # x: f32[2, 3]
    x.min(axis=1)
    """
    return _reduced(call, "min")


@rule("torch.argmax", "Tensor.argmax", signature="input, dim=None, keepdim=False", dtype="int")
def argmax(call: Call) -> Expr:
    """Of equal values JAX takes the first, torch any.

    >>> x.argmax(dim=1, keepdim=True)  # x: f32[2, 3]
    x.argmax(axis=1, keepdims=True)
    """
    return _reduced(call, "argmax")


@rule("torch.argmin", "Tensor.argmin", signature="input, dim=None, keepdim=False", dtype="int")
def argmin(call: Call) -> Expr:
    """Of equal values JAX takes the first, torch any.

    >>> x.argmin(dim=1)  # x: f32[2, 3]
    x.argmin(axis=1)
    """
    return _reduced(call, "argmin")


@rule("torch.logsumexp", "Tensor.logsumexp", signature="input, dim, keepdim=False", dtype="float")
def logsumexp(call: Call) -> Expr:
    """Needs an axis in torch.

    >>> torch.logsumexp(x, dim=1)  # x: f32[2, 3]
    jax.nn.logsumexp(x, axis=1)
    """
    return nodes.call("jax.nn.logsumexp", call.node("input"), axis=axes(call, "dim"), **call.given(keepdim="keepdims"))


@rule("torch.cumsum", "Tensor.cumsum", signature="input, dim, *, dtype=None")
def cumsum(call: Call) -> Expr:
    """Needs an axis in torch.

    >>> x.cumsum(dim=1)  # x: f32[2, 3]
    jnp.cumsum(x, axis=1)
    """
    return _cumulated(call, "cumsum")


@rule("torch.count_nonzero", "Tensor.count_nonzero", signature="input, dim=None", dtype="int")
def count_nonzero(call: Call) -> Expr:
    """Over all axes by default.

    >>> torch.count_nonzero(x)  # x: idx2[2, 3]
    jnp.count_nonzero(x)
    >>> torch.count_nonzero(x, dim=1)  # x: idx2[2, 3]
    jnp.count_nonzero(x, axis=1)
    """
    return _reduced(call, "jnp.count_nonzero")


@rule("torch.cumprod", "Tensor.cumprod", signature="input, dim, *, dtype=None")
def cumprod(call: Call) -> Expr:
    """Needs an axis in torch.

    >>> torch.cumprod(x, dim=1)  # x: pos[2, 3]
    jnp.cumprod(x, axis=1)
    """
    return _cumulated(call, "cumprod")


def _cumulated(call: Call, name: str) -> Expr:
    return nodes.call(f"jnp.{name}", call.node("input"), axis=call.node("dim"), **call.given("dtype"))


@rule("torch.diff", "Tensor.diff", signature="input, n=1, dim=-1, prepend=None, append=None")
def diff(call: Call) -> Expr:
    """Differences of neighbours.

    >>> torch.diff(x)  # x: f32[2, 5]
    jnp.diff(x)
    >>> x.diff(dim=0)  # x: f32[4, 3]
    jnp.diff(x, axis=0)
    """
    call.only("prepend", None)
    call.only("append", None)
    given = {"n": call.node("n")} if call.has("n") else {}
    given |= {"axis": call.node("dim")} if call.has("dim") else {}
    return nodes.call("jnp.diff", call.node("input"), **given)


def _spread_and_mean(name: str) -> Rule:
    def function(call: Call) -> Value:
        _unbiased_first(call)
        keepdim = call.node("keepdim") if call.has("keepdim") else None
        axis = {"axis": call.node("dim")} if call.has("dim") else {}
        axis |= {"keepdims": keepdim} if keepdim is not None else {}
        mean = nodes.call(call.make("{input}.mean"), **axis)
        return Value(nodes.tuple_of([_spread(call, name), mean]), Items((Tensor("float"),) * 2, type="tuple"))

    made = "x.var(" if name == "var" else "standard_deviation(x, "
    doc = (
        f"Divides by N - 1 by default, numpy by N.\n\n    >>> torch.{name}_mean(x, dim=1)  # x: f32[2, 3]\n"
        f"    ({made}axis=1, ddof=1), x.mean(axis=1))\n"
        f"    >>> torch.{name}_mean(x, dim=-1, unbiased=False, keepdim=True)  # x: f32[2, 3]\n"
        f"    ({made}axis=-1, keepdims=True), x.mean(axis=-1, keepdims=True))\n"
    )
    parameters = signature("input, dim=None, unbiased=True, keepdim=False, *, correction=1")
    return Rule((f"torch.{name}_mean",), parameters, function, False, "", doc, "reductions")


register(_spread_and_mean("var"))
register(_spread_and_mean("std"))

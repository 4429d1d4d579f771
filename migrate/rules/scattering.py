"""Writing to places that an index says, and what has as many elements as the data ask for."""

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Kind, Tensor
from migrate.rules.rule import Call, Rule, Value, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_OF_BOOLEANS = {"add": "max", "multiply": "min"}
_MODES = {"sum": "add", "add": "add", "prod": "multiply", "multiply": "multiply", "amax": "max", "amin": "min"}


def _is_mask(kind: Kind) -> bool:
    return isinstance(kind, Tensor) and kind.dtype == "bool"


def _method(call: Call, name: str) -> str:
    """The method of `.at[]`: JAX neither adds nor multiplies booleans."""
    return _OF_BOOLEANS.get(name, name) if _is_mask(call.kind("input")) else name


def _scattered(call: Call, source: str, mode: str) -> Expr:
    call.snippet("scatter")
    more = {"mode": nodes.expression(f'"{_method(call, mode)}"')} if mode != "set" else {}
    return nodes.call("scatter", *[call.node(name) for name in ("input", "dim", "index", source)], **more)


@rule("torch.scatter", "Tensor.scatter", signature="input, dim, index, src=None, *, value=None, reduce=None")
def scatter(call: Call) -> Expr:
    """Where an index comes twice, which value stays is left open in torch.

    >>> x.scatter(1, y, z)  # x: f32[3, 5]; y: idx5[3, 1]; z: const[3, 4]
    scatter(x, 1, y, z)
    >>> torch.zeros(3, 5).scatter(1, y, 1)  # y: idx5[3, 1]
    scatter(jnp.zeros((3, 5)), 1, y, 1)
    >>> torch.scatter(x, 0, y, z, reduce="add")  # x: const[3, 4]; y: idx3[2, 4]; z: const[2, 4]
    scatter(x, 0, y, z, mode="add")
    """
    call.only("reduce", None, "add", "multiply")
    mode = _MODES[str(call.literal("reduce"))] if call.has("reduce") else "set"
    return _scattered(call, "value" if call.has("value") else "src", mode)


@rule("torch.scatter_add", "Tensor.scatter_add", signature="input, dim, index, src")
def scatter_add(call: Call) -> Expr:
    """Adds up where an index comes twice.

    >>> x.scatter_add(0, y, z)  # x: f32[3, 4]; y: idx3[6, 4]; z: f32[6, 4]
    scatter(x, 0, y, z, mode="add")
    """
    return _scattered(call, "src", "add")


@rule("torch.scatter_reduce", "Tensor.scatter_reduce", signature="input, dim, index, src, reduce, *, include_self=True")
def scatter_reduce(call: Call) -> Expr:
    """With what is there already, unless include_self=False. Of equal maxima the gradient is shared.

    >>> x.scatter_reduce(0, y, z, reduce="sum")  # x: f32[3, 4]; y: idx3[6, 4]; z: f32[6, 4]
    scatter(x, 0, y, z, mode="add")
    >>> x.scatter_reduce(1, y, z, "amax")  # x: spread[3, 4]; y: idx4[3, 2]; z: spread[3, 2]
    scatter(x, 1, y, z, mode="max")
    >>> x.scatter_reduce(0, y, z, "mean", include_self=False)  # x: f32[3, 4]; y: idx3[6, 4]; z: f32[6, 4]
    scatter_reduce(x, 0, y, z, "mean", include_self=False)
    """
    reduce = nodes.literal(call.node("reduce"))
    kind = call.kind("input")
    if reduce == "prod" and call.traced and not (isinstance(kind, Tensor) and kind.dtype in ("int", "bool")):
        raise Unsupported("MIG302", f"{call.api}: JAX has no gradient of products that are scattered")
    if reduce in _MODES and not call.has("include_self"):
        return _scattered(call, "src", _MODES[str(reduce)])
    if reduce is not ... and reduce not in (*_MODES, "mean"):
        raise Unsupported("MIG302", f"{call.api}: reduce={reduce!r} is not supported")
    if _is_mask(kind) and reduce not in ("amax", "amin"):
        raise Unsupported("MIG302", f"{call.api} of booleans with these arguments")
    given = [call.node(name) for name in ("input", "dim", "index", "src", "reduce")]
    return nodes.call(call.snippet("scatter_reduce"), *given, **call.given("include_self"))


def _at(call: Call) -> Expr:
    """`input.at[:, index]` for an axis that is a literal."""
    axis = call.literal("dim")
    assert isinstance(axis, int)
    before = [":"] * axis if axis >= 0 else ["..."]
    after = [] if axis >= 0 else [":"] * (-axis - 1)
    return call.make("{input}.at[" + ", ".join([*before, "{index}", *after]) + "]")


def _indexed(name: str, parameters: str, method: str, source: str, example: str, shown: str, note: str) -> Rule:
    def function(call: Call) -> Expr:
        change = call.node(source)
        if call.has("alpha"):
            change = nodes.expression("{alpha} * {x}", alpha=call.node("alpha"), x=change)
        return nodes.call(nodes.expression("{at}." + _method(call, method), at=_at(call)), change)

    doc = f"{note}\n\n    >>> {example}\n    {shown}\n"
    names = (f"Tensor.{name}", f"torch.{name}")
    return Rule(names, signature(parameters), function, False, "like", doc, "scattering")


register(
    _indexed(
        "index_add", "input, dim, index, source, *, alpha=1", "add", "source",
        "x.index_add(1, y, z)  # x: f32[2, 3]; y: idx3[4]; z: f32[2, 4]", "x.at[:, y].add(z)",
        "Adds up where an index comes twice.",
    )
)  # fmt: skip
register(
    _indexed(
        "index_copy", "input, dim, index, source", "set", "source",
        "x.index_copy(0, y, z)  # x: f32[5, 2]; y: idx5[1]; z: f32[1, 2]", "x.at[y].set(z)",
        "Where an index comes twice, which row stays is left open.",
    )
)  # fmt: skip
register(
    _indexed(
        "index_fill", "input, dim, index, value", "set", "value",
        "x.index_fill(-1, y, 2.0)  # x: f32[3, 5]; y: idx5[2]", "x.at[..., y].set(2.0)",
        "One value for all.",
    )
)  # fmt: skip


@rule("torch.index_put", "Tensor.index_put", signature="input, indices, values, accumulate=False")
def index_put(call: Call) -> Expr:
    """Adds up with accumulate=True, else which value stays is left open where an index comes twice.

    >>> x.index_put((y, z), w, accumulate=True)  # x: f32[3, 4]; y: idx3[5]; z: idx4[5]; w: f32[5]
    x.at[y, z].add(w)
    """
    call.only("accumulate", True, False)
    kind = call.kind("indices")
    if call.traced and isinstance(kind, Items) and any(_is_mask(item) for item in kind.items or ()):
        raise Unsupported("MIG302", f"{call.api}: a boolean mask as index has a shape that depends on the data")
    method = _method(call, "add" if call.literal("accumulate") else "set")
    indices = call.node("indices")
    if not isinstance(indices, cst.Tuple | cst.List):
        return call.make("{input}.at[tuple({indices})]." + method + "({values})")
    listed = {f"index{n}": element.value for n, element in enumerate(indices.elements)}
    inside = ", ".join("{" + name + "}" for name in listed)
    return call.make("{input}.at[" + inside + "]." + method + "({values})", **listed)


@rule("torch.take", "Tensor.take", signature="input, index")
def take(call: Call) -> Expr:
    """Of the flattened tensor.

    >>> torch.take(x, y)  # x: f32[2, 3]; y: idx6[4]
    jnp.take(x, y)
    """
    return call.make("jnp.take({input}, {index})")


@rule("torch.masked_scatter", "Tensor.masked_scatter", signature="input, mask, source")
def masked_scatter(call: Call) -> Expr:
    """The elements of the source, in their order, go where the mask is True.

    >>> x.masked_scatter(y, z)  # x: f32[2, 3]; y: bool[2, 3]; z: f32[6]
    masked_scatter(x, y, z)
    """
    call.snippet("masked_scatter")
    return call.make("masked_scatter({input}, {mask}, {source})")


@rule("torch.masked_select", "Tensor.masked_select", signature="input, mask")
def masked_select(call: Call) -> Expr:
    """Outside of jit only: how many there are depends on the data.

    >>> torch.masked_select(x, x > 0)  # x: f32[2, 3]; on the host
    x[x > 0]
    """
    call.on_host(call.api)
    return call.make("{input}[{mask}]")


@rule("torch.nonzero", "Tensor.nonzero", signature="input, *, as_tuple=False")
def nonzero(call: Call) -> Value:
    """Outside of jit only: how many there are depends on the data.

    >>> torch.nonzero(x)  # x: idx2[2, 3]; on the host
    jnp.argwhere(x)
    >>> x.nonzero(as_tuple=True)  # x: idx2[2, 3]; on the host
    jnp.nonzero(x)
    """
    call.on_host(call.api)
    if call.has("as_tuple") and call.literal("as_tuple"):
        return Value(call.make("jnp.nonzero({input})"), Items(None, Tensor("int", 1), "tuple"))
    return Value(call.make("jnp.argwhere({input})"), Tensor("int", 2))


@rule("torch.argwhere", "Tensor.argwhere", signature="input")
def argwhere(call: Call) -> Value:
    """Outside of jit only: how many there are depends on the data.

    >>> torch.argwhere(x)  # x: idx2[2, 3]; on the host
    jnp.argwhere(x)
    """
    call.on_host(call.api)
    return Value(call.make("jnp.argwhere({input})"), Tensor("int", 2))


@rule(
    "torch.unique", "Tensor.unique", signature="input, sorted=True, return_inverse=False, return_counts=False, dim=None"
)
def unique(call: Call) -> Value:
    """Outside of jit only: how many there are depends on the data. Sorted always.

    >>> torch.unique(x)  # x: idx5[9]; on the host
    jnp.unique(x)
    >>> torch.unique(x, return_counts=True)  # x: idx5[9]; on the host
    jnp.unique(x, return_counts=True)
    """
    call.on_host(call.api)
    for name in ("return_inverse", "return_counts"):
        call.only(name, True, False)
    count = 1 + sum(bool(call.literal(name)) for name in ("return_inverse", "return_counts"))
    more = call.given("return_inverse", "return_counts", dim="axis")
    kind = call.kind("input")
    first = Tensor(kind.dtype if isinstance(kind, Tensor) else "")
    made = Items((first, *(Tensor("int"),) * (count - 1)), type="tuple") if count > 1 else first
    return Value(nodes.call("jnp.unique", call.node("input"), **more), made)

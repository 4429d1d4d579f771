"""Taking, ordering and moving elements."""

from migrate.known.kinds import Items, Tensor
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("torch.tril", "Tensor.tril", signature="input, diagonal=0")
def tril(call: Call) -> Expr:
    """The lower triangle.

    >>> torch.tril(x)  # x: f32[3, 4]
    jnp.tril(x)
    >>> torch.tril(x, diagonal=1)  # x: f32[3, 4]
    jnp.tril(x, 1)
    """
    return call.make("jnp.tril({input}, {diagonal})") if call.has("diagonal") else call.make("jnp.tril({input})")


@rule("torch.triu", "Tensor.triu", signature="input, diagonal=0")
def triu(call: Call) -> Expr:
    """The upper triangle.

    >>> torch.triu(x, diagonal=1)  # x: f32[3, 4]
    jnp.triu(x, 1)
    """
    return call.make("jnp.triu({input}, {diagonal})") if call.has("diagonal") else call.make("jnp.triu({input})")


@rule("torch.gather", "Tensor.gather", signature="input, dim, index, *, sparse_grad=False")
def gather(call: Call) -> Expr:
    """torch's index may be shorter than the input on the other axes, where jnp.take_along_axis would broadcast it.

    >>> x.gather(1, y)  # x: f32[2, 3]; y: idx3[2, 2]
    gather(x, 1, y)
    >>> torch.gather(x, -1, y)  # x: f32[4, 3]; y: idx3[1, 2]
    gather(x, -1, y)
    """
    call.snippet("gather")
    return call.make("gather({input}, {dim}, {index})")


@rule("torch.index_select", "Tensor.index_select", signature="input, dim, index")
def index_select(call: Call) -> Expr:
    """Rows of one axis.

    >>> torch.index_select(x, 0, y)  # x: f32[3, 4]; y: idx3[2]
    jnp.take(x, y, axis=0)
    """
    return call.make("jnp.take({input}, {index}, axis={dim})")


@rule("torch.roll", "Tensor.roll", signature="input, shifts, dims=None")
def roll(call: Call) -> Expr:
    """Without `dims` the flattened tensor rolls.

    >>> torch.roll(x, 1, dims=1)  # x: f32[2, 3]
    jnp.roll(x, 1, axis=1)
    """
    return (
        call.make("jnp.roll({input}, {shifts}, axis={dims})")
        if call.has("dims")
        else call.make("jnp.roll({input}, {shifts})")
    )


@rule("torch.flip", signature="input, dims")
def flip(call: Call) -> Expr:
    """Always a copy in torch.

    >>> torch.flip(x, [1])  # x: f32[2, 3]
    jnp.flip(x, (1,))
    """
    axes = call.literal("dims")
    return call.make("jnp.flip({input}, {axes})", axes=repr(tuple(axes) if isinstance(axes, list | tuple) else axes))


@rule("Tensor.flip", signature="input, *dims")
def flip_method(call: Call) -> Expr:
    """Always a copy in torch.

    >>> x.flip(0, 1)  # x: f32[2, 3]
    jnp.flip(x, (0, 1))
    >>> x.flip([1])  # x: f32[2, 3]
    jnp.flip(x, (1,))
    """
    return call.make("jnp.flip({input}, {dims})", dims=call.shape("dims"))


@rule("torch.fliplr", "Tensor.fliplr", signature="input")
def fliplr(call: Call) -> Expr:
    """Reverses the second axis.

    >>> torch.fliplr(x)  # x: f32[2, 3]
    jnp.fliplr(x)
    """
    return call.make("jnp.fliplr({input})")


@rule("torch.flipud", "Tensor.flipud", signature="input")
def flipud(call: Call) -> Expr:
    """Reverses the first axis.

    >>> torch.flipud(x)  # x: f32[2, 3]
    jnp.flipud(x)
    """
    return call.make("jnp.flipud({input})")


def _pair(call: Call, values: Expr, indices: Expr) -> Value:
    kind = call.kind("input")
    dtype = kind.dtype if isinstance(kind, Tensor) else ""
    return Value(nodes.tuple_of([values, indices]), Items((Tensor(dtype), Tensor("int")), type="tuple"))


@rule("torch.topk", "Tensor.topk", signature="input, k, dim=-1, largest=True, sorted=True", dtype="")
def topk(call: Call) -> Value:
    """Of equal values JAX takes the first, torch any; sorted=False promises no order, so sorted is one.

    >>> torch.topk(x, 2)  # x: spread[3, 5]
    jax.lax.top_k(x, 2)
    >>> x.topk(k=3, dim=-1)  # x: spread[5]
    jax.lax.top_k(x, 3)
    >>> torch.topk(x, 2, dim=1, largest=False)  # x: spread[3, 5]
    top_k_along(x, 2, axis=1, largest=False)
    >>> x.topk(2, 0)  # x: spread[4, 3]
    top_k_along(x, 2, axis=0)
    """
    kind = call.kind("input")
    dtype = kind.dtype if isinstance(kind, Tensor) else ""
    given: dict[str, Expr] = {}
    if call.has("dim") and not nodes.is_literal(call.node("dim"), -1):
        given["axis"] = call.node("dim")
    if call.has("largest") and not nodes.is_literal(call.node("largest"), True):
        given["largest"] = call.node("largest")
    node: Expr = call.make("jax.lax.top_k({input}, {k})")
    if given:
        call.snippet("top_k_along")
        node = nodes.call("top_k_along", call.node("input"), call.node("k"), **given)
    return Value(node, Items((Tensor(dtype), Tensor("int")), type="tuple"))


@rule("torch.sort", "Tensor.sort", signature="input, dim=-1, descending=False, stable=False", dtype="")
def sort(call: Call) -> Value:
    """Values and indices; NaN comes last in both, first where descending.

    >>> torch.sort(x)  # x: spread[2, 5]
    (jnp.sort(x), jnp.argsort(x))
    >>> x.sort(dim=0, descending=True)  # x: spread[4, 3]
    (jnp.sort(x, axis=0, descending=True), jnp.argsort(x, axis=0, descending=True))
    """
    given = _order(call)
    return _pair(call, nodes.call("jnp.sort", call.node("input"), **given), _argsort(call))


@rule("torch.argsort", "Tensor.argsort", signature="input, dim=-1, descending=False, stable=False", dtype="int")
def argsort(call: Call) -> Expr:
    """Of equal values JAX keeps the order, torch only with stable=True.

    >>> torch.argsort(x, dim=0)  # x: spread[4, 3]
    jnp.argsort(x, axis=0)
    >>> x.argsort(descending=True)  # x: spread[2, 5]
    jnp.argsort(x, descending=True)
    """
    return _argsort(call)


def _order(call: Call) -> dict[str, Expr]:
    given = {"axis": call.node("dim")} if call.has("dim") else {}
    return given | ({"descending": call.node("descending")} if call.has("descending") else {})


def _argsort(call: Call) -> Expr:
    return nodes.call("jnp.argsort", call.node("input"), **_order(call))


@rule("torch.narrow", "Tensor.narrow", signature="input, dim, start, length")
def narrow(call: Call) -> Expr:
    """A part of one axis. Outside the tensor torch raises an error, jax moves the part back in.

    >>> x.narrow(1, 1, 2)  # x: f32[2, 4]
    jax.lax.dynamic_slice_in_dim(x, 1, 2, axis=1)
    """
    return call.make("jax.lax.dynamic_slice_in_dim({input}, {start}, {length}, axis={dim})")


@rule("torch.select", "Tensor.select", signature="input, dim, index")
def select(call: Call) -> Expr:
    """One element of one axis, which goes.

    >>> x.select(1, 2)  # x: f32[2, 4]
    jnp.take(x, 2, axis=1)
    >>> torch.select(x, 0, -1)  # x: f32[2, 4]
    jnp.take(x, -1, axis=0)
    """
    return call.make("jnp.take({input}, {index}, axis={dim})")


@rule("torch.take_along_dim", "Tensor.take_along_dim", signature="input, indices, dim=None")
def take_along_dim(call: Call) -> Expr:
    """Broadcasts, unlike gather.

    >>> torch.take_along_dim(x, y, dim=1)  # x: f32[2, 3]; y: idx3[2, 4]
    jnp.take_along_axis(x, y, axis=1)
    """
    call.value("dim")
    if not call.has("dim"):
        return call.make("jnp.take_along_axis({input}.reshape(-1), {indices}.reshape(-1), axis=0)")
    return call.make("jnp.take_along_axis({input}, {indices}, axis={dim})")


@rule("torch.diagonal", "Tensor.diagonal", signature="input, offset=0, dim1=0, dim2=1")
def diagonal(call: Call) -> Expr:
    """The diagonal's axis comes last in both.

    >>> torch.diagonal(x)  # x: f32[3, 4]
    jnp.diagonal(x, 0, 0, 1)
    >>> x.diagonal(1, dim1=-2, dim2=-1)  # x: f32[2, 3, 4]
    jnp.diagonal(x, 1, -2, -1)
    """
    return call.make("jnp.diagonal({input}, {offset}, {dim1}, {dim2})")


@rule("torch.diag", "Tensor.diag", signature="input, diagonal=0")
def diag(call: Call) -> Expr:
    """A matrix from a vector, or the diagonal of a matrix.

    >>> torch.diag(x)  # x: f32[3]
    jnp.diag(x)
    >>> x.diag(1)  # x: f32[3, 4]
    jnp.diag(x, 1)
    """
    return call.make("jnp.diag({input}, {diagonal})") if call.has("diagonal") else call.make("jnp.diag({input})")


@rule("torch.searchsorted", signature="sorted_sequence, input, *, out_int32=False, right=False", dtype="int")
def searchsorted(call: Call) -> Expr:
    """In one sorted vector, or in a row for each row of values, which JAX does not take.

    >>> torch.searchsorted(x, y)  # x: sorted[7]; y: f32[2, 3]
    searchsorted(x, y)
    >>> torch.searchsorted(x, y, right=True)  # x: sorted[2, 7]; y: f32[2, 4]
    searchsorted(x, y, side="right")
    """
    side = ', side="right"' if nodes.is_literal(call.node("right"), True) else ""
    call.only("right", True, False)
    found = "jnp.searchsorted" if call.rank("sorted_sequence") == 1 else call.snippet("searchsorted")
    return call.make(f"{found}({{sorted_sequence}}, {{input}}{side})")


@rule("torch.bincount", "Tensor.bincount", signature="input, weights=None, minlength=0", dtype="int")
def bincount(call: Call) -> Expr:
    """Outside of jit only: its length is one more than the largest value, at least minlength.

    >>> torch.bincount(x, minlength=6)  # x: idx6[20]; on the host
    jnp.bincount(x, minlength=6)
    """
    call.on_host(call.api)
    return nodes.call("jnp.bincount", call.node("input"), **call.given("weights", "minlength"))

"""Shapes and axes."""

import libcst as cst

from migrate.known.kinds import SHAPE, Items, Number, Tensor
from migrate.rules.rule import Call, Value, axes, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _like(call: Call, node: Expr, name: str = "input", rank: int = -1) -> Value:
    kind = call.kind(name)
    if isinstance(kind, Tensor):
        return Value(node, Tensor(kind.dtype, rank, origins=kind.origins))
    return Value(node, Tensor())


@rule("Tensor.view", signature="input, *size")
def view(call: Call) -> Value:
    """A new shape for the same elements; `view(dtype)` reinterprets bits and is refused.

    >>> x.view(-1, 6)  # x: f32[2, 3, 4]
    x.reshape(-1, 6)
    >>> x.view((2, 12))  # x: f32[2, 3, 4]
    x.reshape(2, 12)
    >>> x.view(2, *x.shape[1:])  # x: f32[2, 3, 4]
    x.reshape(2, *x.shape[1:])
    """
    return _reshape(call, call.shape("size"))


@rule("Tensor.reshape", signature="input, *shape")
def reshape(call: Call) -> Value:
    """A new shape for the same elements.

    >>> x.reshape(x.size(0), -1)  # x: f32[2, 3, 4]
    x.reshape(x.shape[0], -1)
    """
    return _reshape(call, call.shape("shape"))


def _reshape(call: Call, shape: Expr) -> Value:
    sizes = nodes.elements(shape) if isinstance(shape, cst.Tuple) else [shape]
    made = nodes.call(nodes.expression("{input}.reshape", input=call.node("input")), *sizes)
    return _like(call, made, rank=nodes.length(shape))


@rule("torch.reshape", signature="input, shape")
def reshape_function(call: Call) -> Value:
    """A new shape for the same elements.

    >>> torch.reshape(x, (4, -1))  # x: f32[2, 3, 4]
    x.reshape((4, -1))
    """
    return _like(call, call.make("{input}.reshape({shape})"), rank=nodes.length(call.node("shape")))


@rule("Tensor.view_as", "Tensor.reshape_as", signature="input, other")
def view_as(call: Call) -> Expr:
    """The shape of another tensor.

    >>> x.view_as(y)  # x: f32[2, 6]; y: f32[3, 4]
    x.reshape(y.shape)
    """
    return call.make("{input}.reshape({other}.shape)")


@rule("torch.flatten", "Tensor.flatten", signature="input, start_dim=0, end_dim=-1")
def flatten(call: Call) -> Value:
    """Merges a range of axes; without arguments, all of them, the batch axis too.

    >>> torch.flatten(x, 1)  # x: f32[2, 3, 4]
    x.reshape(x.shape[0], -1)
    >>> x.flatten()  # x: f32[2, 3, 4]
    x.reshape(-1)
    >>> x.flatten(0, 1)  # x: f32[2, 3, 4]
    jax.lax.collapse(x, 0, 2)
    >>> (x + 1).flatten(2)  # x: f32[2, 3, 4, 5]
    jax.lax.collapse(x + 1, 2)
    """
    start, end = call.literal("start_dim"), call.literal("end_dim")
    assert isinstance(start, int) and isinstance(end, int)
    rank = start + 1 if end == -1 and start >= 0 else -1
    if end != -1:
        made = call.make("jax.lax.collapse({input}, {start_dim}, {stop})", stop=end + 1)
    elif start == 0:
        made = call.make("{input}.reshape(-1)")
    elif start == 1 and (name := _named(call.node("input"))) is not None:
        made = call.make("{input}.reshape({name}.shape[0], -1)", name=name)
    else:
        made = call.make("jax.lax.collapse({input}, {start_dim})")
    return _like(call, made, rank=rank)


@rule("torch.transpose", "Tensor.transpose", "torch.swapaxes", "Tensor.swapaxes", signature="input, dim0, dim1")
def transpose(call: Call) -> Value:
    """Swaps two axes (numpy's transpose takes all of them).

    >>> x.transpose(1, 2)  # x: f32[2, 3, 4]
    x.swapaxes(1, 2)
    """
    return _like(call, call.make("{input}.swapaxes({dim0}, {dim1})"), rank=call.rank("input"))


@rule("torch.t", "Tensor.t", signature="input")
def t(call: Call) -> Value:
    """Only for matrices and vectors.

    >>> x.t()  # x: f32[2, 3]
    x.T
    """
    return _like(call, nodes.transposed(call.node("input")), rank=call.rank("input"))


@rule("Tensor.permute", signature="input, *dims")
def permute(call: Call) -> Value:
    """All axes in a new order.

    >>> x.permute(0, 2, 1)  # x: f32[2, 3, 4]
    x.transpose(0, 2, 1)
    """
    axes = call.shape("dims")
    listed = nodes.elements(axes) if isinstance(axes, cst.Tuple) else [axes]
    made = nodes.call(nodes.expression("{input}.transpose", input=call.node("input")), *listed)
    return _like(call, made, rank=nodes.length(axes))


@rule("torch.permute", signature="input, dims")
def permute_function(call: Call) -> Value:
    """All axes in a new order.

    >>> torch.permute(x, (0, 2, 1))  # x: f32[2, 3, 4]
    jnp.transpose(x, (0, 2, 1))
    """
    return _like(call, call.make("jnp.transpose({input}, {dims})"), rank=call.rank("input"))


@rule("torch.unsqueeze", "Tensor.unsqueeze", signature="input, dim")
def unsqueeze(call: Call) -> Value:
    """A new axis of length 1.

    >>> x.unsqueeze(1)  # x: f32[2, 3]
    jnp.expand_dims(x, 1)
    >>> x.unsqueeze(-1)  # x: f32[2, 3]
    jnp.expand_dims(x, -1)
    """
    known = call.rank("input")
    rank = known + 1 if known >= 0 else -1
    return _like(call, call.make("jnp.expand_dims({input}, {dim})"), rank=rank)


@rule("torch.squeeze", "Tensor.squeeze", signature="input, dim=None")
def squeeze(call: Call) -> Expr:
    """With `dim`, torch leaves an axis that is longer than 1 as it is, where jax raises an error. The one feature of
    `nn.Linear(d, 1)` is seen.

    >>> x.squeeze(1)  # x: f32[2, 1, 3]
    squeeze(x, 1)
    >>> torch.squeeze(x, (0, -1))  # x: f32[2, 3, 1]
    squeeze(x, (0, -1))
    >>> x.squeeze()  # x: f32[2, 1, 3]
    x.squeeze()
    """
    if not call.has("dim"):
        return call.make("{input}.squeeze()")
    length = call.length("input", "dim")
    if length is not None and nodes.is_literal(length, 1):
        return call.make("{input}.squeeze({dim})")
    return nodes.call(call.snippet("squeeze"), call.node("input"), axes(call, "dim"))


@rule("Tensor.expand", signature="input, *size")
def expand(call: Call) -> Value:
    """-1 keeps an axis.

    >>> x.expand(2, 3)  # x: f32[1, 3]
    jnp.broadcast_to(x, (2, 3))
    >>> x.expand(4, -1, 3)  # x: f32[2, 1]
    jnp.broadcast_to(x, (4, x.shape[-2], 3))
    """
    sizes = call.shape("size")
    if isinstance(sizes, cst.Tuple):
        listed = nodes.elements(sizes)
        if any(nodes.is_literal(size, -1) for size in listed):
            call.name("input")
            first = 0 if call.rank("input") == len(listed) else -len(listed)  # axes are counted from the last
            listed = [
                call.make("{input}.shape[{axis}]", axis=axis) if nodes.is_literal(size, -1) else size
                for axis, size in enumerate(listed, first)
            ]
            sizes = nodes.tuple_of(listed)
    made = call.make("jnp.broadcast_to({input}, {sizes})", sizes=sizes)
    return _like(call, made, rank=nodes.length(sizes))


def _named(node: Expr) -> cst.Name | None:
    """The plain name whose batch axis is that of `node`: itself, or the one that a layout move is applied to."""
    if isinstance(node, cst.Name):
        return node
    if not (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "transpose"
    ):
        return None
    batch_first = nodes.is_literal(node.args[0].value, 0)
    return node.func.value if batch_first and isinstance(node.func.value, cst.Name) else None


@rule("Tensor.expand_as", signature="input, other")
def expand_as(call: Call) -> Expr:
    """The shape of another tensor.

    >>> x.expand_as(y)  # x: f32[1, 3]; y: f32[2, 3]
    jnp.broadcast_to(x, y.shape)
    """
    return call.make("jnp.broadcast_to({input}, {other}.shape)")


@rule("Tensor.contiguous", "Tensor.clone", "torch.clone", signature="input, *, memory_format=None", elementwise=True)
def contiguous(call: Call) -> Expr:
    """jax arrays have no strides and never change in place.

    >>> x.contiguous()  # x: f32[2, 3]
    x
    """
    return call.node("input")


@rule("Tensor.detach", "torch.detach", signature="input", elementwise=True)
def detach(call: Call) -> Expr:
    """Cuts the gradient; statements of a script's top level that no step takes up have none to cut.

    >>> x.detach()  # x: f32[2, 3]
    jax.lax.stop_gradient(x)
    """
    return call.make("jax.lax.stop_gradient({input})") if call.differentiable else call.node("input")


@rule("Tensor.size", signature="input, dim=None")
def size(call: Call) -> Value:
    """A tuple of all lengths, or one of them.

    >>> x.reshape(x.size(0), -1)  # x: f32[2, 3, 4]
    x.reshape(x.shape[0], -1)
    """
    if call.has("dim"):
        return Value(call.make("{input}.shape[{dim}]"), Number())
    return Value(call.make("{input}.shape"), Items(None, Number(), SHAPE))


@rule("Tensor.dim", "Tensor.ndimension", signature="input")
def dim(call: Call) -> Value:
    """The rank.

    >>> x * x.dim()  # x: f32[2, 3]
    x * x.ndim
    """
    return Value(call.make("{input}.ndim"), Number())


@rule("torch.numel", "Tensor.numel", "Tensor.nelement", signature="input")
def numel(call: Call) -> Value:
    """The number of elements.

    >>> x * x.numel()  # x: f32[2, 3]
    x * x.size
    """
    return Value(call.make("{input}.size"), Number())


@rule("torch.movedim", "Tensor.movedim", "torch.moveaxis", "Tensor.moveaxis", signature="input, source, destination")
def movedim(call: Call) -> Value:
    """Moves axes, the others keep their order.

    >>> x.movedim(1, -1)  # x: f32[2, 3, 4]
    jnp.moveaxis(x, 1, -1)
    """
    return _like(call, call.make("jnp.moveaxis({input}, {source}, {destination})"), rank=call.rank("input"))

"""Taking, ordering and moving elements."""

from migrate.nodes import Expr
from migrate.rules.rule import Call, rule


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


@rule("torch.gather", "Tensor.gather", signature="input, dim, index")
def gather(call: Call) -> Expr:
    """torch's index may be shorter than the input on the other axes; jnp.take_along_axis wants it to broadcast.

    >>> x.gather(1, y)  # x: f32[2, 3]; y: idx3[2, 2]
    jnp.take_along_axis(x, y, axis=1)
    """
    return call.make("jnp.take_along_axis({input}, {index}, axis={dim})")


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
    import ast

    axes = call.literal("dims")
    return call.make(
        "jnp.flip({input}, {axes})",
        axes=ast.unparse(ast.Constant(tuple(axes) if isinstance(axes, list | tuple) else axes)),
    )

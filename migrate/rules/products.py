"""Products of matrices and einsum."""

from migrate import nodes
from migrate.nodes import Expr
from migrate.rules.rule import Call, rule


@rule("torch.matmul", "Tensor.matmul", "torch.mm", "Tensor.mm", "torch.bmm", "Tensor.bmm", signature="input, other")
def matmul(call: Call) -> Expr:
    """Batch axes broadcast.

    >>> torch.matmul(x, y)  # x: f32[2, 3]; y: f32[3, 4]
    x @ y
    >>> torch.bmm(x, y)  # x: f32[5, 2, 3]; y: f32[5, 3, 4]
    x @ y
    """
    return call.make("{input} @ {other}")


@rule("torch.dot", "Tensor.dot", signature="input, other")
def dot(call: Call) -> Expr:
    """Of two vectors only.

    >>> torch.dot(x, y)  # x: f32[3]; y: f32[3]
    x @ y
    """
    return call.make("{input} @ {other}")


@rule("torch.einsum", signature="equation, *operands")
def einsum(call: Call) -> Expr:
    """The same subscripts.

    >>> torch.einsum("bi,ij->bj", x, y)  # x: f32[2, 3]; y: f32[3, 4]
    jnp.einsum("bi,ij->bj", x, y)
    """
    return nodes.call("jnp.einsum", call.node("equation"), *[value.node for value in call.rest])


@rule("torch.outer", "Tensor.outer", signature="input, vec2")
def outer(call: Call) -> Expr:
    """Of two vectors.

    >>> torch.outer(x, y)  # x: f32[2]; y: f32[3]
    jnp.outer(x, y)
    """
    return call.make("jnp.outer({input}, {vec2})")

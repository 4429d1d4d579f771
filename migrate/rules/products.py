"""Products of matrices and einsum."""

from migrate.known.kinds import Tensor
from migrate.rules.rule import Call, Result, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("torch.matmul", "Tensor.matmul", "torch.mm", "Tensor.mm", "torch.bmm", "Tensor.bmm", signature="input, other")
def matmul(call: Call) -> Result:
    """Batch axes broadcast.

    >>> torch.matmul(x, y)  # x: f32[2, 3]; y: f32[3, 4]
    x @ y
    >>> torch.bmm(x, y)  # x: f32[5, 2, 3]; y: f32[5, 3, 4]
    x @ y
    """
    made, kind = call.make("{input} @ {other}"), call.kind("input")
    rank = {"mm": 2, "bmm": 3}.get(call.api.rpartition(".")[2])
    return made if rank is None or not isinstance(kind, Tensor) else Value(made, Tensor(kind.dtype, rank))


@rule("torch.dot", "Tensor.dot", signature="input, tensor")
def dot(call: Call) -> Expr:
    """Of two vectors only.

    >>> torch.dot(x, y)  # x: f32[3]; y: f32[3]
    x @ y
    """
    return call.make("{input} @ {tensor}")


@rule("torch.einsum", signature="equation, *operands")
def einsum(call: Call) -> Expr:
    """The same subscripts.

    >>> torch.einsum("bi,ij->bj", x, y)  # x: f32[2, 3]; y: f32[3, 4]
    jnp.einsum("bi,ij->bj", x, y)
    >>> torch.einsum("bi,ij->bj", [x, y])  # x: f32[2, 3]; y: f32[3, 4]
    jnp.einsum("bi,ij->bj", x, y)
    """
    return nodes.call("jnp.einsum", call.node("equation"), *call.tensors())


@rule("torch.outer", "Tensor.outer", "torch.ger", "Tensor.ger", signature="input, vec2")
def outer(call: Call) -> Expr:
    """Of two vectors.

    >>> torch.outer(x, y)  # x: f32[2]; y: f32[3]
    jnp.outer(x, y)
    """
    return call.make("jnp.outer({input}, {vec2})")


@rule("torch.baddbmm", "Tensor.baddbmm", signature="input, batch1, batch2, *, beta=1, alpha=1")
def baddbmm(call: Call) -> Expr:
    """beta * input + alpha * batch1 @ batch2. Of integers torch cuts off the decimals of beta and alpha.

    >>> torch.baddbmm(x, y, z, beta=3, alpha=2)  # x: f32[2, 3, 5]; y: f32[2, 3, 4]; z: f32[2, 4, 5]
    (3 * x) + (2 * (y @ z))
    >>> torch.baddbmm(x, y, z, beta=0.5)  # x: f32[2, 3, 5]; y: f32[2, 3, 4]; z: f32[2, 4, 5]
    baddbmm(x, y, z, beta=0.5)
    >>> torch.baddbmm(x, y, z)  # x: f32[3, 5]; y: f32[2, 3, 4]; z: f32[2, 4, 5]
    x + (y @ z)
    >>> torch.baddbmm(x, y, z, alpha=2.5)  # x: i32[3, 5]; y: i32[2, 3, 4]; z: i32[2, 4, 5]
    baddbmm(x, y, z, alpha=2.5)
    """
    kind = call.kind("input")
    fractions = any(isinstance(nodes.literal(call.node(name)), float) for name in ("beta", "alpha"))
    if fractions and not (isinstance(kind, Tensor) and kind.dtype == "float"):
        given = [call.node(name) for name in ("input", "batch1", "batch2")]
        return nodes.call(call.snippet("baddbmm"), *given, **call.given("beta", "alpha"))
    return _added(call, "batch1", "batch2")


@rule("torch.addmm", "Tensor.addmm", signature="input, mat1, mat2, *, beta=1, alpha=1")
def addmm(call: Call) -> Expr:
    """beta * input + alpha * mat1 @ mat2.

    >>> torch.addmm(x, y, z)  # x: f32[5]; y: f32[3, 4]; z: f32[4, 5]
    x + (y @ z)
    """
    return _added(call, "mat1", "mat2")


def _added(call: Call, one: str, other: str) -> Expr:
    product = call.make(f"{{{one}}} @ {{{other}}}")
    scaled = nodes.expression("{a} * {p}", a=call.node("alpha"), p=product) if call.has("alpha") else product
    first = call.make("{beta} * {input}") if call.has("beta") else call.node("input")
    return nodes.expression("{a} + {b}", a=first, b=scaled)


@rule("torch.mv", "Tensor.mv", signature="input, vec")
def mv(call: Call) -> Expr:
    """A matrix times a vector.

    >>> torch.mv(x, y)  # x: f32[2, 3]; y: f32[3]
    x @ y
    """
    return call.make("{input} @ {vec}")


@rule("torch.kron", "Tensor.kron", signature="input, other")
def kron(call: Call) -> Expr:
    """Kronecker's product.

    >>> torch.kron(x, y)  # x: f32[2, 2]; y: f32[2, 3]
    jnp.kron(x, y)
    """
    return call.make("jnp.kron({input}, {other})")


@rule("torch.trace", "Tensor.trace", signature="input")
def trace(call: Call) -> Expr:
    """The sum of the diagonal of a matrix.

    >>> torch.trace(x)  # x: f32[3, 4]
    jnp.trace(x)
    """
    return call.make("jnp.trace({input})")

"""Sparse tensors become dense arrays of the same values: what XLA compiles has fixed shapes, and a product with a dense
matrix is what it is fastest at. What only a sparse tensor has (its indices, its values) has no rule."""

from migrate.known.kinds import Items, Tensor
from migrate.rules.creation import dtype_kind
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("Tensor.to_sparse", signature="input", elementwise=True)
def to_sparse(call: Call) -> Expr:
    """The array stays dense, and takes the memory of one.

    >>> x.to_sparse().to_dense()  # x: f32[2, 3]
    x
    """
    return call.node("input")


@rule("Tensor.to_dense", signature="input, dtype=None, *, masked_grad=None", elementwise=True)
def to_dense(call: Call) -> Expr:
    """What was sparse in torch is dense already.

    >>> x.to_sparse().to_dense()  # x: f32[2, 3]
    x
    """
    call.only("dtype", None)
    call.only("masked_grad", None)
    return call.node("input")


@rule("Tensor.coalesce", signature="input", elementwise=True)
def coalesce(call: Call) -> Expr:
    """Entries of the same place have been added up.

    >>> x.to_sparse().coalesce().to_dense()  # x: f32[2, 3]
    x
    """
    return call.node("input")


@rule("torch.spmm", "torch.sparse.mm", signature="input, mat2")
def product(call: Call) -> Expr:
    """A dense product.

    >>> torch.spmm(x.to_sparse(), y)  # x: f32[2, 3]; y: f32[3, 4]
    x @ y
    >>> torch.sparse.mm(x.to_sparse(), y)  # x: f32[2, 3]; y: f32[3, 4]
    x @ y
    """
    return call.make("{input} @ {mat2}")


@rule(
    "torch.sparse_coo_tensor",
    signature="indices, values, size, *, dtype=None, device=None, requires_grad=False, check_invariants=None, "
    "is_coalesced=None",
)
def sparse_coo_tensor(call: Call) -> Value:
    """Values of the same place add up. Without a size torch takes the largest indices, which jit does not know.

    >>> torch.sparse_coo_tensor(y, x, (3, 4), check_invariants=True).to_dense()  # x: f32[5]; y: idx3[2, 5]
    jnp.zeros((3, 4), jnp.result_type(x)).at[tuple(y)].add(x)
    """
    kind = call.kind("values")
    indices = call.node("indices")
    if isinstance(call.kind("indices"), Items):
        indices = nodes.call("jnp.array", indices)
    values: Expr = call.node("values")
    rank = nodes.length(call.node("size"))
    if call.has("dtype"):
        dtype = call.node("dtype")
        values = nodes.expression("{x}.astype({t})", x=nodes.parenthesized(values), t=dtype)
        made, zeros = dtype_kind(dtype), nodes.call("jnp.zeros", call.node("size"), dtype)
    else:
        made = kind.dtype if isinstance(kind, Tensor) else ""
        zeros = call.make("jnp.zeros({size}, jnp.result_type({values}))")
    text = "{zeros}.at[tuple({indices})].add({values})"
    return Value(nodes.expression(text, zeros=zeros, indices=indices, values=values), Tensor(made, rank))

"""Further ways to arrange elements: windows, turns, pairs, broadcasting."""

from functools import partial

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import SHAPE, Items, Number, Tensor
from migrate.rules.rule import Call, Rule, Value, axes, plain, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_plain = partial(plain, family="arranging")


def _at_least(n: int) -> Rule:
    def function(call: Call) -> Value:
        given = call.tensors()
        several = len(given) > 1 or given != [value.node for value in call.rest]
        return Value(nodes.call(f"jnp.atleast_{n}d", *given), Items(None, Tensor()) if several else Tensor())

    shape = {1: "", 2: "3", 3: "2, 3"}[n]
    text = f"torch.atleast_{n}d(x)  # x: f32[{shape}]\n    jnp.atleast_{n}d(x)"
    doc = f"Adds axes where there are fewer.\n\n    >>> {text}\n"
    return Rule((f"torch.atleast_{n}d",), signature("*tensors"), function, False, "", doc, "arranging")


for _n in (1, 2, 3):
    register(_at_least(_n))
_plain(
    "torch.vander", "x, N=None, increasing=False", "jnp.vander({x}, {N}, {increasing})", "Powers in columns.",
    "torch.vander(x, 3, increasing=True)  # x: const[4] -> jnp.vander(x, 3, True)",
)  # fmt: skip
_plain(
    "torch.unravel_index", "indices, shape", "jnp.unravel_index({indices}, {shape})", "A tuple of indices.",
    "torch.unravel_index(x, (2, 3))  # x: idx6[4] -> jnp.unravel_index(x, (2, 3))", dtype="int",
)  # fmt: skip
_plain(
    "torch.ravel Tensor.ravel", "input", "{input}.reshape(-1)", "One axis.",
    "torch.ravel(x)  # x: f32[2, 3] -> x.reshape(-1)",
)  # fmt: skip
_plain(
    "torch.adjoint Tensor.adjoint", "input", "jnp.conj({input}).mT", "The conjugate transpose.",
    "torch.adjoint(x)  # x: f32[2, 3] -> jnp.conj(x).mT",
)  # fmt: skip


@rule("torch.rot90", "Tensor.rot90", signature="input, k=1, dims=(0, 1)")
def rot90(call: Call) -> Expr:
    """From the first axis towards the second.

    >>> torch.rot90(x)  # x: f32[2, 3]
    jnp.rot90(x)
    >>> x.rot90(2, [1, 2])  # x: f32[2, 3, 4]
    jnp.rot90(x, k=2, axes=(1, 2))
    """
    plane = {"axes": axes(call, "dims")} if call.has("dims") else {}
    return nodes.call("jnp.rot90", call.node("input"), **call.given("k"), **plane)


@rule("torch.unflatten", "Tensor.unflatten", signature="input, dim, *sizes")
def unflatten(call: Call) -> Expr:
    """Splits one axis into several.

    >>> x.unflatten(1, (2, -1))  # x: f32[3, 4, 5]
    x.reshape(*x.shape[:1], 2, -1, *x.shape[2:])
    >>> torch.unflatten(x, -1, (2, 3))  # x: f32[4, 6]
    x.reshape(*x.shape[:-1], 2, 3)
    """
    axis = call.literal("dim")
    if not isinstance(axis, int):
        raise Unsupported("MIG302", f"{call.api}: an axis by name is not supported")
    sizes = call.shape("sizes")
    inside = nodes.elements(sizes) if isinstance(sizes, cst.Tuple) and nodes.length(sizes) >= 0 else None
    filled = {f"n{i}": size for i, size in enumerate(inside or [])}
    middle = ", ".join("{" + name + "}" for name in filled) if inside is not None else "*{sizes}"
    after = "" if axis == -1 else f", *{{input}}.shape[{axis + 1}:]"
    before = "" if axis == 0 else f"*{{input}}.shape[:{axis}], "
    return call.make(f"{{input}}.reshape({before}{middle}{after})", sizes=sizes, **filled)


@rule("Tensor.unfold", signature="input, dimension, size, step")
def unfold(call: Call) -> Expr:
    """Windows of one axis, on a new last axis (F.unfold is another function).

    >>> x.unfold(1, 3, 2)  # x: f32[2, 7]
    windows(x, 1, 3, 2)
    >>> x.unfold(-1, 2, 1).sum()  # x: f32[2, 3, 4]
    windows(x, -1, 2, 1).sum()
    """
    call.snippet("windows")
    return call.make("windows({input}, {dimension}, {size}, {step})")


@rule("torch.tensor_split", "Tensor.tensor_split", signature="input, indices_or_sections, dim=0")
def tensor_split(call: Call) -> Value:
    """A number of parts, or the places to cut.

    >>> torch.tensor_split(x, 3)  # x: f32[7, 2]
    jnp.array_split(x, 3)
    >>> x.tensor_split((1, 4), dim=1)  # x: f32[2, 6]
    jnp.array_split(x, (1, 4), axis=1)
    """
    if isinstance(call.kind("indices_or_sections"), Tensor):
        raise Unsupported("MIG302", f"{call.api}: a tensor of places")
    more = call.given(dim="axis")
    return Value(
        nodes.call("jnp.array_split", call.node("input"), call.node("indices_or_sections"), **more),
        Items(None, Tensor()),
    )


def _split(name: str) -> Rule:
    def function(call: Call) -> Value:
        return Value(call.make(f"jnp.{name}({{input}}, {{indices_or_sections}})"), Items(None, Tensor()))

    doc = f"Equal parts, or the places to cut.\n\n    >>> torch.{name}(x, 2)  # x: f32[2, 4, 6]\n    jnp.{name}(x, 2)\n"
    names, parameters = (f"torch.{name}", f"Tensor.{name}"), signature("input, indices_or_sections")
    return Rule(names, parameters, function, False, "", doc, "arranging")


for _name in ("hsplit", "vsplit", "dsplit"):
    register(_split(_name))


@rule("torch.broadcast_tensors", signature="*tensors")
def broadcast_tensors(call: Call) -> Value:
    """To their common shape.

    >>> torch.broadcast_tensors(x, y)  # x: f32[2, 1]; y: f32[3]
    jnp.broadcast_arrays(x, y)
    """
    made = nodes.call("jnp.broadcast_arrays", *call.tensors())
    return Value(made, Items(None, Tensor()))


@rule("torch.broadcast_shapes", signature="*shapes")
def broadcast_shapes(call: Call) -> Value:
    """The common shape.

    >>> x.reshape(torch.broadcast_shapes((2, 1), (3,)))  # x: f32[6]
    x.reshape(jnp.broadcast_shapes((2, 1), (3,)))
    """
    made = nodes.call("jnp.broadcast_shapes", *[value.node for value in call.rest])
    return Value(made, Items(None, Number(), SHAPE))


@rule("torch.cartesian_prod", signature="*tensors")
def cartesian_prod(call: Call) -> Expr:
    """Every pair, the last tensor changing fastest.

    >>> torch.cartesian_prod(x, y)  # x: f32[2]; y: f32[3]
    jnp.stack(jnp.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    """
    if len(call.rest) < 2 or any(not isinstance(value.kind, Tensor) for value in call.rest):
        raise Unsupported("MIG302", f"{call.api}: only tensors, two or more")
    mesh = nodes.call("jnp.meshgrid", *[value.node for value in call.rest], indexing=nodes.expression('"ij"'))
    return nodes.expression(f"jnp.stack({{mesh}}, axis=-1).reshape(-1, {len(call.rest)})", mesh=mesh)


def _triangle(name: str) -> Rule:
    def function(call: Call) -> Value:
        made = call.make(f"jnp.stack(jnp.{name}({{row}}, {{offset}}, {{col}}))")
        return Value(made, Tensor("int", 2))

    doc = f"Rows and columns in one tensor.\n\n    >>> torch.{name}(3, 4, 1)\n    jnp.stack(jnp.{name}(3, 1, 4))\n"
    parameters = signature("row, col, offset=0, *, dtype=None, device=None, layout=None")
    return Rule((f"torch.{name}",), parameters, function, False, "int", doc, "arranging")


register(_triangle("tril_indices"))
register(_triangle("triu_indices"))


@rule("torch.combinations", signature="input, r=2, with_replacement=False")
def combinations(call: Call) -> Expr:
    """Pairs in the order of their indices.

    >>> torch.combinations(x)  # x: f32[4]
    x[jnp.stack(jnp.triu_indices(x.size, 1), axis=-1)]
    """
    call.only("r", 2)
    call.only("with_replacement", False)
    return call.make("{input}[jnp.stack(jnp.triu_indices({input}.size, 1), axis=-1)]")

"""Joining, splitting and repeating tensors."""

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Kind, Number, Tensor
from migrate.rules.rule import Call, Rule, Value, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("Tensor.repeat", signature="input, *repeats")
def repeat(call: Call) -> Expr:
    """Tiles the whole tensor; numpy's repeat repeats elements.

    >>> x.repeat(2, 1)  # x: f32[2, 3]
    jnp.tile(x, (2, 1))
    """
    return call.make("jnp.tile({input}, {sizes})", sizes=call.shape("repeats"))


@rule(
    "torch.repeat_interleave",
    "Tensor.repeat_interleave",
    signature="input, repeats, dim=None, *, output_size=None",
)
def repeat_interleave(call: Call) -> Expr:
    """Repeats elements; without `dim` of the flattened tensor. A tensor of repetitions needs the length of the output
    inside jit.

    >>> x.repeat_interleave(2, dim=1)  # x: f32[2, 3]
    jnp.repeat(x, 2, axis=1)
    >>> torch.repeat_interleave(x, 2, dim=0, output_size=4)  # x: f32[2, 3]
    jnp.repeat(x, 2, axis=0, total_repeat_length=4)
    """
    if isinstance(call.kind("repeats"), Tensor) and not call.has("output_size"):
        call.on_host("a tensor of repetitions")
    options = call.given(dim="axis", output_size="total_repeat_length")
    return nodes.call("jnp.repeat", call.node("input"), call.node("repeats"), **options)


@rule("torch.cat", "torch.concat", "torch.concatenate", signature="tensors, dim=0")
def cat(call: Call) -> Value:
    """The default axis is 0 in both.

    >>> torch.cat([x, y], dim=1)  # x: f32[2, 3]; y: f32[2, 4]
    jnp.concatenate([x, y], axis=1)
    >>> torch.cat((x, y))  # x: f32[2, 3]; y: f32[1, 3]
    jnp.concatenate((x, y))
    """
    kind = call.kind("tensors")
    element = kind.joined() if isinstance(kind, Items) else Tensor()
    concatenate = "jnp.concatenate"
    if call.beside_nothing and not (isinstance(element, Tensor) and element.rank == 1):
        concatenate = call.snippet("concatenate")
    given = "{tensors}, axis={dim}" if call.has("dim") else "{tensors}"
    node = call.make(f"{concatenate}({given})")
    return Value(node, element if isinstance(element, Tensor) else Tensor())


@rule("torch.stack", signature="tensors, dim=0")
def stack(call: Call) -> Value:
    """A new axis, 0 by default in both.

    >>> torch.stack([x, y])  # x: f32[2, 3]; y: f32[2, 3]
    jnp.stack([x, y])
    >>> torch.stack((x, y), -1)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.stack((x, y), axis=-1)
    """
    kind = call.kind("tensors")
    element = kind.joined() if isinstance(kind, Items) else Tensor()
    node = call.make("jnp.stack({tensors}, axis={dim})") if call.has("dim") else call.make("jnp.stack({tensors})")
    made = (
        Tensor(element.dtype, element.rank + 1 if element.rank >= 0 else -1)
        if isinstance(element, Tensor)
        else Tensor()
    )
    return Value(node, made)


@rule("torch.chunk", "Tensor.chunk", signature="input, chunks, dim=0")
def chunk(call: Call) -> Value:
    """Where the length does not divide, torch makes equal chunks and a shorter last one, numpy raises an error. Where
    the features of a dense layer show that it does (`nn.Linear(d, 3 * d)`), numpy's split is written.

    >>> x.chunk(2, dim=1)  # x: f32[2, 4]
    chunk(x, 2, axis=1)
    >>> torch.chunk(x, 3)  # x: f32[5, 2]
    chunk(x, 3)
    """
    length = call.length("input", "dim")
    if length is not None and _divides(call.node("chunks"), length):
        return Value(call.make("jnp.split({input}, {chunks}, axis={dim})"), Items(None, Tensor()))
    made = nodes.call(call.snippet("chunk"), call.node("input"), call.node("chunks"), **call.given(dim="axis"))
    return Value(made, Items(None, Tensor()))


def _divides(count: Expr, length: Expr) -> bool:
    """Whether a number of parts divides a length, as far as both are written: `3` divides `3 * d` and `192`."""
    if isinstance(length, cst.BinaryOperation) and isinstance(length.operator, cst.Multiply):
        return _divides(count, length.left) or _divides(count, length.right)
    parts, whole = nodes.literal(count), nodes.literal(length)
    return isinstance(parts, int) and isinstance(whole, int) and parts > 0 and whole % parts == 0


@rule("torch.split_with_sizes", "Tensor.split_with_sizes", signature="input, split_sizes, dim=0")
def split_with_sizes(call: Call) -> Value:
    """The sizes of all parts; numpy takes where they begin.

    >>> x.split_with_sizes([1, 3, 1], 1)  # x: f32[2, 5]
    split(x, [1, 3, 1], axis=1)
    """
    call.snippet("split")
    short = "split({input}, {split_sizes})"
    return Value(call.make(f"{short[:-1]}, axis={{dim}})" if call.has("dim") else short), Items(None, Tensor()))


@rule("torch.split", "Tensor.split", signature="input, split_size_or_sections, dim=0")
def split(call: Call) -> Value:
    """torch takes the size of a part or the sizes of all, numpy the number of parts or where they begin.

    >>> x.split(2, dim=1)  # x: f32[2, 5]
    split_by_size(x, 2, axis=1)
    >>> torch.split(x, 1)  # x: f32[2, 5]
    split_by_size(x, 1)
    >>> x.split([1, 3, 1], dim=1)  # x: f32[2, 5]
    split(x, [1, 3, 1], axis=1)
    """
    size = call.kind("split_size_or_sections")
    if isinstance(size, Tensor):
        raise Unsupported("MIG302", f"{call.api}: sizes in a tensor are not supported")
    snippet = "split_by_size" if isinstance(size, Number) else "split"
    call.snippet(snippet)
    short = f"{snippet}({{input}}, {{split_size_or_sections}})"
    template = f"{short[:-1]}, axis={{dim}})" if call.has("dim") else short
    return Value(call.make(template), Items(None, Tensor()))


def _whole(name: str, target: str, note: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{target}({{tensors}})")

    doc = f"{note}\n\n    >>> torch.{name}((x, y))  # x: f32[2, 3]; y: f32[2, 3]\n    {target}((x, y))\n"
    return Rule((f"torch.{name}",), signature("tensors"), function, False, "", doc, "joining")


register(_whole("hstack", "jnp.hstack", "Along the second axis, the first of vectors."))
register(_whole("vstack", "jnp.vstack", "Along the first axis; vectors become rows."))
register(_whole("dstack", "jnp.dstack", "Along a third axis."))
register(_whole("column_stack", "jnp.column_stack", "Vectors become columns."))


@rule("torch.unbind", "Tensor.unbind", signature="input, dim=0", dtype="")
def unbind(call: Call) -> Value:
    """The parts along one axis, which goes.

    >>> torch.unbind(x)  # x: f32[2, 3]
    tuple(x)
    >>> x.unbind(dim=-1)  # x: f32[2, 3]
    tuple(jnp.moveaxis(x, -1, 0))
    """
    node = call.make("tuple(jnp.moveaxis({input}, {dim}, 0))" if call.has("dim") else "tuple({input})")
    kind = call.kind("input")
    rank = kind.rank - 1 if isinstance(kind, Tensor) and kind.rank > 0 else -1
    return Value(node, Items(None, Tensor(kind.dtype if isinstance(kind, Tensor) else "", rank), "tuple"))


@rule("torch.meshgrid", signature="*tensors, indexing=None", dtype="")
def meshgrid(call: Call) -> Value:
    """torch's default is "ij", numpy's "xy". torch takes tensors without axes, too, where the source shows them.

    >>> torch.meshgrid(x, y, indexing="ij")  # x: f32[2]; y: f32[3]
    jnp.meshgrid(x, y, indexing="ij")
    >>> torch.meshgrid(x, y.sum(), indexing="ij")  # x: f32[2]; y: f32[3]
    jnp.meshgrid(x, jnp.atleast_1d(y.sum()), indexing="ij")
    >>> torch.meshgrid([x, y], indexing="xy")  # x: f32[2]; y: f32[3]
    jnp.meshgrid(x, y, indexing="xy")
    """
    indexing = call.node("indexing") if call.has("indexing") else nodes.expression('"ij"')
    tensors = call.tensors(of_several=True)
    kind = call.rest[0].kind if len(call.rest) == 1 else None
    kinds = kind.items or () if isinstance(kind, Items) else [value.kind for value in call.rest]
    if len(kinds) == len(tensors):
        tensors = [_with_an_axis(node, kind) for node, kind in zip(tensors, kinds, strict=True)]
    made = nodes.call("jnp.meshgrid", *tensors, indexing=indexing)
    rank = -1 if any(isinstance(node, cst.StarredElement) for node in tensors) else len(tensors)
    return Value(made, Items(None, Tensor(rank=rank)))


def _with_an_axis(node: Expr, kind: Kind) -> Expr:
    """A tensor, with an axis where it is known to have none."""
    return nodes.call("jnp.atleast_1d", node) if isinstance(kind, Tensor) and kind.rank == 0 else node


@rule("torch.tile", signature="input, dims")
def tile(call: Call) -> Expr:
    """Repeats the whole tensor along each axis.

    >>> torch.tile(x, (2, 1))  # x: f32[2, 3]
    jnp.tile(x, (2, 1))
    """
    return call.make("jnp.tile({input}, {dims})")


@rule("Tensor.tile", signature="input, *dims")
def tile_method(call: Call) -> Expr:
    """Repeats the whole tensor, as `torch.tile` does.

    >>> x.tile(2, 1)  # x: f32[2, 3]
    jnp.tile(x, (2, 1))
    """
    return call.make("jnp.tile({input}, {sizes})", sizes=call.shape("dims"))


@rule(
    "torch.nn.utils.rnn.pad_sequence", signature="sequences, batch_first=False, padding_value=0.0, padding_side='right'"
)
def pad_sequence(call: Call) -> Expr:
    """Time comes first where `batch_first` does not say otherwise.

    >>> torch.nn.utils.rnn.pad_sequence([x, y])  # x: f32[2, 3]; y: f32[4, 3]
    pad_sequence([x, y])
    >>> torch.nn.utils.rnn.pad_sequence([x, y], True, 7.0, "left")  # x: f32[2]; y: f32[4]
    pad_sequence([x, y], batch_first=True, padding_value=7.0, padding_side="left")
    """
    call.snippet("pad_sequence")
    more = call.given("batch_first", "padding_value", "padding_side")
    return nodes.call("pad_sequence", call.node("sequences"), **more)


@rule("torch.broadcast_to", "Tensor.broadcast_to", signature="input, size")
def broadcast_to(call: Call) -> Expr:
    """The same rules of broadcasting.

    >>> torch.broadcast_to(x, (2, 3))  # x: f32[3]
    jnp.broadcast_to(x, (2, 3))
    """
    return call.make("jnp.broadcast_to({input}, {size})")

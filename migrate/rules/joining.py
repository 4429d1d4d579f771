"""Joining, splitting and repeating tensors."""

from migrate.diagnostics import Unsupported
from migrate.kinds import Items, Number, Tensor
from migrate.nodes import Expr
from migrate.rules.rule import Call, Value, rule


@rule("Tensor.repeat", signature="input, *repeats")
def repeat(call: Call) -> Expr:
    """Tiles the whole tensor; numpy's repeat repeats elements.

    >>> x.repeat(2, 1)  # x: f32[2, 3]
    jnp.tile(x, (2, 1))
    """
    return call.make("jnp.tile({input}, {sizes})", sizes=call.shape("repeats"))


@rule("torch.repeat_interleave", "Tensor.repeat_interleave", signature="input, repeats, dim=None")
def repeat_interleave(call: Call) -> Expr:
    """Repeats elements; without `dim` of the flattened tensor.

    >>> x.repeat_interleave(2, dim=1)  # x: f32[2, 3]
    jnp.repeat(x, 2, axis=1)
    """
    if call.has("dim"):
        return call.make("jnp.repeat({input}, {repeats}, axis={dim})")
    return call.make("jnp.repeat({input}, {repeats})")


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
    node = (
        call.make("jnp.concatenate({tensors}, axis={dim})")
        if call.has("dim")
        else call.make("jnp.concatenate({tensors})")
    )
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
    """Where the length does not divide, torch makes equal chunks and a shorter last one, numpy differs by one: only a
    length that divides runs.

    >>> x.chunk(2, dim=1)  # x: f32[2, 4]
    jnp.split(x, 2, axis=1)
    """
    return Value(call.make("jnp.split({input}, {chunks}, axis={dim})"), Items(None, Tensor()))


@rule("torch.split", "Tensor.split", signature="input, split_size_or_sections, dim=0")
def split(call: Call) -> Value:
    """torch takes the size of a part, numpy the number of parts.

    >>> x.split(2, dim=1)  # x: f32[2, 5]
    split_by_size(x, 2, axis=1)
    >>> torch.split(x, 1)  # x: f32[2, 5]
    split_by_size(x, 1)
    """
    if not isinstance(call.kind("split_size_or_sections"), Number):
        raise Unsupported("MIG302", f"{call.api}: a list of sizes is not supported")
    call.snippet("split_by_size")
    template = "split_by_size({input}, {split_size_or_sections}, axis={dim})"
    short = "split_by_size({input}, {split_size_or_sections})"
    return Value(call.make(template if call.has("dim") else short), Items(None, Tensor()))

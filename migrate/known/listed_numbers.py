"""Lists that torch makes a tensor of: a tensor in one is the one number that it has, in JAX an array with its axes."""

import libcst as cst

from migrate.known.kinds import Items, Kind, Tensor
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def number_alone(data: Expr, kind: Kind) -> cst.Call | None:
    """`[[t]]` is `t.reshape(1, 1)`, whatever axes the one number has; None of other lists and of what has no axes."""
    sides = 0
    while isinstance(data, cst.List | cst.Tuple) and len(data.elements) == 1 and isinstance(kind, Items):
        data, kind, sides = data.elements[0].value, kind.joined(), sides + 1
    if not sides or not isinstance(kind, Tensor) or kind.rank == 0 or isinstance(data, cst.List | cst.Tuple):
        return None
    return nodes.call(nodes.expression("{x}.reshape", x=data), *[cst.Integer("1")] * sides)


def with_numbers(data: Expr, kind: Kind) -> Expr:
    """What a list, or a part of it, holds, with numbers in the place of tensors that may have axes of one element."""
    if isinstance(kind, Tensor):
        return data if kind.rank == 0 else nodes.expression("{x}.reshape(())", x=data)
    if not isinstance(kind, Items) or kind.type not in ("list", "tuple"):
        return data
    if isinstance(data, cst.List | cst.Tuple) and kind.items is not None and len(data.elements) == len(kind.items):
        parts = [
            one.with_changes(value=with_numbers(one.value, of))
            for one, of in zip(data.elements, kind.items, strict=True)
        ]
        return data.with_changes(elements=parts)
    inner: Kind = kind
    while isinstance(inner, Items) and inner.type in ("list", "tuple"):
        inner = inner.joined()
    if not isinstance(inner, Tensor) or inner.rank == 0:
        return data
    if isinstance(data, cst.ListComp):
        return data.with_changes(elt=with_numbers(data.elt, kind.joined()))
    return nodes.expression("jax.tree.map(lambda x: jnp.reshape(x, ()), {data})", data=data)

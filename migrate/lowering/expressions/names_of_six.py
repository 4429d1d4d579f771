"""What `torch._six` held for both Pythons until PyTorch 2: `inf`, `string_classes`, `container_abcs.Iterable`."""

from __future__ import annotations

from migrate.known.kinds import Kind, Number, Plain, TorchName
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

SIX = "torch._six."
_CONTAINERS = "container_abcs."
_STANDING_FOR: dict[str, tuple[str, Kind]] = {
    "inf": ("jnp.inf", Number()),
    "nan": ("jnp.nan", Number()),
    "string_classes": ("str", Plain("type")),
    "int_classes": ("int", Plain("type")),
}


def of_python(name: str, node: Expr) -> Value:
    """What Python has in the place of a name of `torch._six`; the name itself for what it has not."""
    rest = name.removeprefix(SIX)
    if rest.startswith(_CONTAINERS):
        return Value(nodes.expression(f"collections.abc.{rest.removeprefix(_CONTAINERS)}"), Plain("type"))
    made, kind = _STANDING_FOR.get(rest, ("", TorchName(name)))
    return Value(nodes.expression(made) if made else node, kind)

"""Calls with `*args`: what a parameter is given, and where the state of a function goes beside them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Items, Kind
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def spread(
    args: Sequence[cst.Arg], number: int, kind: Kind, names: Sequence[str], optional: Container[str]
) -> dict[str, tuple[Expr, Kind]]:
    """What `*value` gives the parameters after those of the arguments before it, where it is known how many it is. A
    batch that stays torch gives those that need a value."""
    arg = args[number]
    plain = all(not one.star and one.keyword is None for one in args[:number])
    if arg.star != "*" or not plain:
        return {}
    if isinstance(kind, Host) and kind.what == "batch":
        needing = [name for name in names[number:] if name not in optional]
        return {name: (nodes.expression(f"{{x}}[{i}]", x=arg.value), kind) for i, name in enumerate(needing)}
    if not isinstance(kind, Items) or kind.items is None:
        return {}
    parts = [nodes.expression(f"{{x}}[{position}]", x=arg.value) for position in range(len(kind.items))]
    return dict(zip(names[number:], zip(parts, kind.items, strict=True), strict=False))


def starred_more(kind: Kind, before: int | None) -> int | None:
    """How many parameters more than one each `*value`, and the stars before it, fill; None where that is not known."""
    items = kind.items if isinstance(kind, Items) else None
    return None if items is None or before is None else before + len(items) - 1


def with_state(
    args: Sequence[cst.Arg], names: Sequence[str], state: Mapping[str, Expr], order: Sequence[str]
) -> list[cst.Arg]:
    """Arguments of which a star hides some, with the state: what the callee has before the hidden ones stands there,
    the rest has keywords. `names`: the parameters of the arguments, "" where they are hidden; `order`: the callee's.
    Raises Unsupported where state comes between parameters that a star may fill."""
    plain = {"comma": cst.MaybeSentinel.DEFAULT, "whitespace_after_arg": cst.SimpleWhitespace("")}
    given = {name: arg for name, arg in zip(names, args, strict=True) if name and arg.keyword is None}
    front: list[cst.Arg] = []
    reached = 0
    for name in order:
        if name not in state and name not in given:
            break
        front += nodes.arguments([state[name]], {}) if name in state else [given[name].with_changes(**plain)]
        reached += 1
    later = {name: value for name, value in state.items() if name not in order[:reached]}
    own = [name for name in order[reached:] if name not in state]
    between = [name for name in later if name in order and own and order.index(name) < order.index(own[-1])]
    if between and any(arg.star == "*" for arg in args):  # what `**settings` gives has names as well
        raise Unsupported("MIG404", f"a star gives arguments beside {', '.join(between)}; name the arguments")
    rest = [arg for arg in args if not any(arg is one for one in given.values())]
    return nodes.extended([*front, *rest], later)

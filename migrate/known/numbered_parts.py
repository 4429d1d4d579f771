"""Parts of models by their paths, also by numbers from the end: `model.blocks[-1]`."""

from __future__ import annotations

from collections.abc import Sequence

from migrate.known.constructed import ClassNode, LayerNode, ListNode, Node
from migrate.known.script import Script


def from_the_beginning(script: Script, cls: str, path: Sequence[str]) -> list[str] | None:
    """A path inside of a model with numbers of modules in a row from its beginning: of three, "blocks", "-1" is
    "blocks", "2". None where their number is not known."""
    found: list[str] = []
    here = _whole(script, cls)
    for key in path:
        row = _in_a_row(here)
        if key.startswith("-"):
            if row is None or len(row) < -int(key):
                return None
            key = str(len(row) + int(key))
        found.append(key)
        here = _inside(script, here, row, key)
    return found


def part_at(script: Script, cls: str, path: Sequence[str]) -> Node | None:
    """What a path inside of a model leads to; None where that is not known."""
    here = _whole(script, cls)
    for key in path:
        here = _inside(script, here, _in_a_row(here), key)
    return here


def _whole(script: Script, cls: str) -> Node | None:
    """What a model is: the row of layers that one without a class of its own is."""
    facts = script.classes.get(cls)
    return facts.children.get("", ClassNode(cls)) if facts is not None else ClassNode(cls)


def _in_a_row(node: Node | None) -> list[Node] | None:
    """The modules of a list, as torch numbers them: moves between layouts are none."""
    if not isinstance(node, ListNode) or node.dynamic or node.named or node.keys:
        return None
    return [child for child in node.children if not isinstance(child, LayerNode) or child.torch]


def _inside(script: Script, node: Node | None, row: Sequence[Node] | None, key: str) -> Node | None:
    if isinstance(node, ClassNode):
        facts = script.classes.get(node.cls)
        return facts.children.get(key) if facts is not None else None
    return row[int(key)] if row is not None and key.isdigit() and int(key) < len(row) else None

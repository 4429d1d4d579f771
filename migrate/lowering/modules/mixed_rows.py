"""Lists of layers in a row that grow by and by and want their channels in different places: `layers.append(Block())`,
then `layers.append(nn.Conv2d(...))`.

A move between two layers would have a number of its own in the list, and how many come before it is told as the program
runs. Each layer that wants its channels last moves them itself there; so do those of an nn.ModuleList that are called
one by one.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.constructed import MOVED, ChoiceNode, LayerNode, ListNode, Passage, passage_of
from migrate.known.kinds import Module, join
from migrate.known.script import Script
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every
from migrate.targets import linen


class MixedRows(Scope):
    """What such lists are made of."""

    def note_mixed(self, row: Expr) -> None:
        """Remembers the parts of a list under a name, where all of them are written where they are put into it."""
        facts = self.script.classes.get(self.cls)
        method = facts.method(self.scope.rpartition(".")[2]) if facts is not None else None
        if not isinstance(row, cst.Name) or method is None or (self.scope, row.value) in self.script.mixed_rows:
            return
        parts = _parts(method, row.value)
        if parts is not None:
            self.script.mixed_rows.add((self.scope, row.value))
            self.unit.moving.update(parts)

    def alike_in_layout(self, one: Value, other: Value) -> tuple[Value, Value]:
        """Two modules of which a test chooses one: where they want their channels in different places, that which wants
        them last moves them itself."""
        both = join(one.kind, other.kind)
        if self.context != "setup" or not isinstance(both, Module) or "mixed" not in (both.entry, both.exit):
            return one, other
        return self.moving_itself(one), self.moving_itself(other)

    def moving_itself(self, value: Value) -> Value:
        """A layer that moves its channels last and back, where it wants them there."""
        kind = value.kind
        if not isinstance(kind, Module) or "last" not in (kind.entry, kind.exit) or "mixed" in (kind.entry, kind.exit):
            return value
        x, row, rank = nodes.name("x"), [nodes.bare(value.node)], kind.rank
        children = [kind.options[0] if len(kind.options) == 1 else ChoiceNode(kind.options)]
        if kind.entry == "last":
            row.insert(0, nodes.expression("lambda x: {x}", x=linen.channels_last(x, rank)))
            children.insert(0, LayerNode(""))
        if kind.exit == "last":
            row.append(nodes.expression("lambda x: {x}", x=linen.channels_first(x, rank)))
            children.append(LayerNode(""))
        made = nodes.call("nn.Sequential", cst.List([cst.Element(part) for part in row]))
        # torch has no row here: the layer is under the name of the row itself
        tree = ListNode(tuple(children), "/layers_", keys=MOVED, passage=Passage("first", "first", rank))
        return Value(made, Module((tree,)))


def note_mixed_lists(script: Script, cls: str) -> None:
    """Remembers the lists of modules of a class, of which the elements want their channels in different places: each
    moves them itself from the next round on."""
    facts = script.classes.get(cls)
    for name, node in facts.children.items() if facts is not None else ():
        passage = passage_of(node.children) if isinstance(node, ListNode) and node.infix == "_" else Passage()
        if "mixed" in (passage.entry, passage.exit):
            script.mixed_lists.add((cls, name))


def _parts(method: cst.FunctionDef, name: str) -> list[Expr] | None:
    """What a method puts into a list that it only fills, and hands on as `*name`; None where it does more with it."""
    parts: list[Expr] = []
    told = 0
    for assign in every(method, cst.Assign):
        if any(nodes.dotted(target.target) == name for target in assign.targets):
            if len(assign.targets) > 1 or not isinstance(assign.value, cst.List):
                return None
            parts += nodes.elements(assign.value)
    for change in every(method, cst.AugAssign):
        if nodes.dotted(change.target) == name:
            if not isinstance(change.value, cst.List | cst.Tuple):
                return None
            parts += nodes.elements(change.value)
            told += 1
    for call in usage.calls(method):
        path, given = nodes.dotted(call.func) or "", [arg.value for arg in call.args]
        if path in (f"{name}.append", f"{name}.insert"):
            parts.append(given[-1])
        elif path == f"{name}.extend" and isinstance(given[0], cst.List | cst.Tuple):
            parts += nodes.elements(given[0])
        elif not any(arg.star == "*" and nodes.dotted(arg.value) == name for arg in call.args):
            continue
        told += 1
    stars = any(isinstance(part, cst.StarredElement) for part in every(method, cst.StarredElement))
    return parts if told == usage.loads(method.body).count(name) and not stars else None

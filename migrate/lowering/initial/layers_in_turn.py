"""Loops over the layers of a row that fill their weights: `for m in self.net: if isinstance(m, nn.Linear): ...`.

Each turn stands for itself: what the tests ask of the layer is known. Of a row whose length a field tells the loop
stays, where all layers are of one sort.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.constructed import ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import Model, Module
from migrate.known.numbered_parts import part_at
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.elements import children_of, only_option
from migrate.lowering.initial.initializers_of_flax import fills
from migrate.lowering.initial.initializing_functions import taken_by
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def turns_of_layers(scope: Arguments, node: cst.For) -> list[Statement] | None:
    """What stands for such a loop; None for others."""
    target, body = node.target, suites.suite_of(node.body.body)
    if node.orelse is not None or not fills(scope, node.body) or any(map(suites.leaves_loop, body)):
        return None
    named = _named_parts(scope, node)
    if named is not None:
        return [
            nodes.substituted(one, bound)
            for name, bound, child in named
            for one in (taken_by(scope, body, name, child) if name else body)
        ]
    if not isinstance(target, cst.Name):
        return None
    over = node.iter
    if isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute) and over.func.attr.value == "children":
        over = over.func.value
    row = _row(scope, over)
    tested = any(True for _ in every(node.body, (cst.If, cst.IfExp))) or over is not node.iter
    if row is None or not (tested or scope.context in HOST_CONTEXTS):
        return None
    children = [one for one in children_of(row) if isinstance(one, LayerNode | ClassNode)]
    if not children or len(children) < len(children_of(row)):
        return None
    sides = [taken_by(scope, body, target.value, child) for child in children]
    if not row.dynamic:
        parts = [nodes.expression(f"{{row}}[{number}]", row=over) for number in range(len(children))]
        pairs = zip(parts, sides, strict=True)
        return [nodes.substituted(one, {target.value: part}) for part, side in pairs for one in side]
    if len(set(children)) > 1 or not tested:  # without tests it says itself already
        return None
    return [node.with_changes(iter=over, body=suites.block(sides[0]))] if sides[0] else []


def _named_parts(scope: Arguments, node: cst.For) -> list[tuple[str, dict[str, Expr], LayerNode | ClassNode]] | None:
    """The turns of a loop of a constructor over the parts of a dict, or over all that the module has itself: the name
    of the part, "" where the loop has the keys alone, what its names stand for, and the part. None of others."""
    if scope.context != "setup":
        return None
    targets = [one.value for one in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    names = [one.value for one in targets if isinstance(one, cst.Name)]
    method = node.iter.func if isinstance(node.iter, cst.Call) and not node.iter.args else None
    way = method.attr.value if isinstance(method, cst.Attribute) else "keys"
    owner = method.value if isinstance(method, cst.Attribute) else node.iter
    own = nodes.dotted(owner) == "self" and way in ("children", "named_children")
    row = None if own else _row(scope, owner, keyed=True)
    if own:
        parts = {name: nodes.expression(f"self.{name}") for name in scope.script.classes[scope.cls].children}
        children = list(scope.script.classes[scope.cls].children.values())
    elif row is not None:
        parts = {key: nodes.expression(f'{{row}}["{key}"]', row=owner) for key in row.keys}
        children = list(row.children)
    else:
        return None
    wanted = {"children": 1, "values": 1, "keys": 1, "items": 2, "named_children": 2}.get(way)
    layers = [one for one in children if isinstance(one, LayerNode | ClassNode)]
    if wanted != len(targets) or wanted != len(names) or len(layers) < len(children):
        return None
    turns: list[tuple[str, dict[str, Expr], LayerNode | ClassNode]] = []
    for (key, part), child in zip(parts.items(), layers, strict=True):
        given = [part] if way in ("children", "values") else [cst.SimpleString(f'"{key}"'), part]
        name = "" if way == "keys" else names[-1]
        turns.append((name, dict(zip(names, given, strict=False)), child))
    return turns


def _row(scope: Arguments, node: Expr, keyed: bool = False) -> ListNode | None:
    """The row of modules that an expression of a constructor, or of the script, stands for; one with keys if asked
    for."""
    found: Node | None = None
    if scope.context == "setup":
        kind = scope.expr(node).kind if (nodes.dotted(node) or "").startswith("self.") else None
        found = only_option(kind) if isinstance(kind, Module) else None
    elif scope.context in HOST_CONTEXTS:
        names: list[str] = []
        inner = node
        while isinstance(inner, cst.Attribute) and not isinstance(scope.kind_of(inner), Model):
            names.insert(0, inner.attr.value)
            inner = inner.value
        kind = scope.kind_of(inner)
        found = part_at(scope.script, kind.cls, names) if isinstance(kind, Model) else None
    if not isinstance(found, ListNode) or found.named or bool(found.keys) != keyed:
        return None
    return None if keyed and found.dynamic else found


def stand_for(scope: Scope, node: cst.For, turns: Sequence[Statement]) -> Sequence[Statement]:
    """The turns, as statements of the file that stand where the loop does: the same ones in each round."""
    key = (node, "in turn")
    if key not in scope.unit.unrolled:
        scope.unit.unrolled[key] = list(turns)
        for one in scope.unit.unrolled[key]:
            scope.unit.stands_for(one, node)
    return scope.unit.unrolled[key]

"""`self.head.apply(init)`: the layers of one part of a module take what an initialising function gives their kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.facts import ClassFacts
from migrate.lowering.expressions.elements import children_of
from migrate.lowering.initial.initializing_functions import initializers_of
from migrate.syntax import nodes

if TYPE_CHECKING:
    from migrate.lowering.initial.initializers import Initializers


def fill_part(
    scope: Initializers, facts: ClassFacts, part: Node, path: str, function: cst.FunctionDef, qualname: str, switch: str
) -> None:
    """Notes the initialisers for the layers of a part, at a path of the class that makes it. The function is called
    `qualname`, and `switch` says whether this is done."""
    reader = scope.in_file_of(qualname)
    for node, place in _inside(part, path):
        if isinstance(node, ClassNode):
            scope.initialize_tree(scope.script.classes[node.cls], function, qualname, switch=switch)
            continue
        given = initializers_of(reader, function, node.torch) | scope.given_inside(reader, function, node)
        if given and not place:
            raise Unsupported("MIG204", f"{path}.apply({function.name.value}) of layers in a list of unknown length")
        weights = {weight.torch for weight in node.weights}
        for weight, made in given.items():
            if weight in weights:
                scope.note_found(facts, f"{place}.{weight}", made, function, switch)


def _inside(node: Node, path: str) -> Iterator[tuple[LayerNode | ClassNode, str]]:
    """The layers and the modules of the user's in a part, with their paths; "" where there may be several."""
    if isinstance(node, LayerNode | ClassNode):
        yield node, path
        return
    known = isinstance(node, ListNode) and not node.dynamic and not node.named
    keys = node.keys if isinstance(node, ListNode) and node.keys else [str(at) for at in range(len(children_of(node)))]
    if isinstance(node, ChoiceNode):
        known, keys = False, [""] * len(node.children)
    children = node.children if isinstance(node, ChoiceNode) else children_of(node)
    for key, child in zip(keys, children, strict=False):
        yield from _inside(child, f"{path}.{key}" if known and path else "")


def part_applied(facts: ClassFacts, call: cst.Call) -> str:
    """The attribute in `self.head.apply(init)`, a part of the module; "" for other calls."""
    names = (nodes.dotted(call.func) or "").split(".")
    single = len(names) == 3 and names[0] == "self" and names[2] == "apply" and len(call.args) == 1
    return names[1] if single and names[1] in facts.seen else ""

"""Loops over modules and their names that ask no names: `for name, m in net.named_modules(): nn.init.zeros_(m.bias)`.

They are `for m in net.modules():`; of `named_children()` likewise.
"""

from __future__ import annotations

import libcst as cst

from migrate.syntax import usage

_WITHOUT_NAMES = {"named_modules": "modules", "named_children": "children"}


def without_names(node: cst.For) -> cst.For:
    """Such a loop as one over the modules alone; others as they are."""
    listed, pair = node.iter, node.target
    if not isinstance(listed, cst.Call) or listed.args or not isinstance(listed.func, cst.Attribute):
        return node
    plain = _WITHOUT_NAMES.get(listed.func.attr.value)
    if plain is None or not isinstance(pair, cst.Tuple) or len(pair.elements) != 2 or node.orelse is not None:
        return node
    name, module = (element.value for element in pair.elements)
    if not isinstance(name, cst.Name) or not isinstance(module, cst.Name) or name.value in usage.loads(node.body):
        return node
    func = listed.func.with_changes(attr=cst.Name(plain))
    return node.with_changes(target=module, iter=listed.with_changes(func=func))

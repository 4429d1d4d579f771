"""Dicts that leave a step: jit gives their keys back sorted, and an `OrderedDict` as it was."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_IN_ORDER = ("items", "values", "keys")


def keeping_order(name: str, body: Sequence[cst.CSTNode], around: cst.CSTNode) -> Expr:
    """A name, or the `OrderedDict` of a dict, where the code around a loss asks for more than entries by their keys.
    `body`: what the loss function does."""
    written = [one.value for each in body for one in every(each, cst.Assign) if name in usage.stores(one)]
    by_key = [one for one in every(around, cst.Subscript) if nodes.dotted(one.value) == name]
    asked = [
        one for one in every(around, cst.Attribute) if nodes.dotted(one.value) == name and one.attr.value in _IN_ORDER
    ]
    displayed = len(written) == 1 and isinstance(written[0], cst.Dict)
    more = len(by_key) < usage.loads(around).count(name)
    if not (asked or (displayed and more)) or (displayed and _is_sorted(written[0])):
        return nodes.name(name)
    return nodes.call("OrderedDict", nodes.name(name))


def _is_sorted(node: Expr) -> bool:
    elements = node.elements if isinstance(node, cst.Dict) else ()
    keys = [nodes.literal(one.key) if isinstance(one, cst.DictElement) else ... for one in elements]
    texts = [key for key in keys if isinstance(key, str)]
    return len(texts) == len(keys) and texts == sorted(texts)

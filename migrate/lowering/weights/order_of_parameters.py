"""Loops over parameters, which Flax has in another order than torch: what goes on from one to the next may depend on
it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every


def refuse_order(loop: cst.For, body: Sequence[cst.CSTNode]) -> None:
    """Declines a turn that computes with how many came before it, or with what they left. Sums and extremes are the
    same in any order, and so is what offsets take from one array of all parameters and put into another."""
    own = usage.target_names(loop.target)
    for name in dict.fromkeys(usage.stores(body)):
        if name in own or not usage.reads_first(body, name):
            continue
        anywhere = sum(_in_any_order(one, name) for each in body for one in every(each, _STEPS))
        shown = [part for each in body for one in every(each, (cst.Subscript, cst.Call)) for part in _shown(one)]
        if usage.loads(body).count(name) > anywhere + sum(usage.loads(part).count(name) for part in shown):
            raise Unsupported(
                "MIG401", f"{name} goes on from one parameter to the next, in an order that is not torch's"
            )


_STEPS = (cst.AugAssign, cst.Assign, cst.If)


def _shown(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The parts of an expression that may say where a parameter stands: an index, what is printed."""
    if isinstance(node, cst.Subscript):
        return node.slice
    return node.args if isinstance(node, cst.Call) and nodes.dotted(node.func) == "print" else ()


def _in_any_order(node: cst.CSTNode, name: str) -> bool:
    """Whether a statement adds to a name, `total += p.sum()`, multiplies it, or takes the larger or the smaller one."""
    if isinstance(node, cst.AugAssign):
        known = isinstance(node.operator, cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign)
        return known and nodes.dotted(node.target) == name and name not in usage.loads(node.value)
    if isinstance(node, cst.If):  # if v > best: best = v
        sides = [node.test.left, node.test.comparisons[0].comparator] if isinstance(node.test, cst.Comparison) else []
        return name in map(nodes.dotted, sides) and name in usage.stores(node.body) and node.orelse is None
    if not isinstance(node, cst.Assign) or nodes.dotted(node.targets[0].target) != name:
        return False
    value = node.value
    parts: list[cst.BaseExpression] = []
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add | cst.Multiply):
        parts = [value.left, value.right]
    elif isinstance(value, cst.Call) and nodes.dotted(value.func) in ("max", "min", "torch.maximum", "torch.minimum"):
        parts = [arg.value for arg in value.args]
    return name in map(nodes.dotted, parts) and usage.loads(value).count(name) == 1

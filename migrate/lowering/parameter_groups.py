"""Selections of a model's parameters: optimizers that treat some of them differently."""

from __future__ import annotations

import libcst as cst

from migrate import nodes, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Number,
    ParameterGroup,
    Parameters,
    Place,
    Weight,
)
from migrate.lowering.state import StateAccess
from migrate.nodes import Expr
from migrate.optimizers import OptimizerEntry
from migrate.rules.rule import Value


class ParameterGroups(StateAccess):
    """Parameter groups."""

    def parameter_group(self, node: cst.ListComp) -> Value | None:
        """`[p for n, p in model.named_parameters() if p.dim() >= 2]`: a selection of parameters."""
        each = node.for_in
        if (
            not isinstance(node.elt, cst.Name)
            or len(each.ifs) != 1
            or each.inner_for_in
            or not isinstance(each.iter, cst.Call)
        ):
            return None
        with self.unit.discarding(), self.naming_parameters():
            kind = self.expr(each.iter).kind
        if not isinstance(kind, Parameters):
            return None
        variable = node.elt.value
        names = [e.value for e in each.target.elements] if isinstance(each.target, cst.Tuple) else [each.target]
        others = {name.value for name in names if isinstance(name, cst.Name)} - {variable}
        test = each.ifs[0].test
        if others & set(usage.loads(test)):
            return None
        lowered = self.inner({variable: Weight()}).node(test)
        group = ParameterGroup(kind.models, variable, nodes.code(test), nodes.code(lowered))
        return Value(node, group)

    def parameter_groups(self, entry: OptimizerEntry, groups: cst.List) -> tuple[tuple[Place, ...], Expr, Value]:
        """Two groups that differ in weight decay only, one of them without: one optimizer with a mask."""
        parts: list[tuple[ParameterGroup, Expr]] = []
        for element in groups.elements:
            if not isinstance(element.value, cst.Dict):
                raise Unsupported("MIG302", f"{entry.torch}: parameter groups other than dicts written in place")
            items = {nodes.literal(e.key): e.value for e in element.value.elements if isinstance(e, cst.DictElement)}
            if set(items) != {"params", "weight_decay"} or entry.decay != "own":
                raise Unsupported(
                    "MIG302", f"{entry.torch}: parameter groups that differ in {sorted(map(str, set(items)))}"
                )
            kind = self.expr(items["params"]).kind
            if not isinstance(kind, ParameterGroup):
                raise Unsupported(
                    "MIG302", f"{entry.torch}: {nodes.code(items['params'])} is not a known selection of parameters"
                )
            parts.append((kind, items["weight_decay"]))
        parts.sort(key=lambda part: nodes.is_literal(part[1], 0.0) or nodes.is_literal(part[1], 0))
        if len(parts) != 2 or not (nodes.is_literal(parts[1][1], 0.0) or nodes.is_literal(parts[1][1], 0)):
            raise Unsupported(
                "MIG302", f"{entry.torch}: parameter groups other than one with and one without weight decay"
            )
        decayed, plain = parts[0][0], parts[1][0]
        if decayed.models != plain.models or not _complementary(decayed.test, plain.test):
            raise Unsupported("MIG302", f"{entry.torch}: parameter groups that are not each other's complement")
        mask = nodes.expression(f"lambda params: jax.tree.map(lambda {decayed.variable}: {decayed.lowered}, params)")
        return decayed.models, mask, Value(parts[0][1], Number())


_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def _complementary(one: str, other: str) -> bool:
    """Whether two tests are each other's negation, as far as their text tells."""
    if one == f"not {other}" or other == f"not {one}":
        return True
    left, right = one.split(), other.split()
    return (
        len(left) == len(right) == 3
        and (left[0], left[2]) == (right[0], right[2])
        and _OPPOSITE.get(left[1]) == right[1]
    )

"""Values that are computed before the statement at hand, under a name."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


class HeldValues(Scope):
    """Names for parts of expressions."""

    def held(self, node: Expr, wanted: str = "array") -> cst.Name:
        """A name for a value that is computed before the statement at hand."""
        name = nodes.name(usage.unused_name(wanted, {*self.unit.taken, *usage.stores(self.before)}))
        self.before.append(nodes.statement("{name} = {node}", name=name, node=node))
        return name

    def unheld(self, node: Expr) -> Expr:
        """An expression with the value that was last computed before the statement in its place, if it is needed there
        only once."""
        match self.before[-1:]:
            case [cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)])]:
                if usage.loads(node).count(name) == 1:
                    self.before.pop()
                    return nodes.substituted(node, {name: value})
        return node

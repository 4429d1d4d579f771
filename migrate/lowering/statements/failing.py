"""Statements that raise an error in torch, too: they raise it in the output as well, at their place."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.lowering.scope import Scope
from migrate.machine import MODULES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.unbound import surely_unbound
from migrate.syntax.walking import walk

# Names that an output may import, whether or not the input did: what reads one unbound would get another meaning.
_IMPORTED = frozenset({"torch", "nn", "np"})


class Failing(Scope):
    """The author's own errors."""

    def failing(self, original: Statement) -> list[Statement] | None:
        """What becomes of a statement that cannot run; None for any other one."""
        if isinstance(original, cst.SimpleStatementLine):
            called = next(filter(None, (self.torch_name(call.func) for call in usage.calls(original))), None)
            if called in MODULES:
                return self.always_fails(original, "TypeError", f"{called} is a module, and cannot be called")
        missing = _IMPORTED & surely_unbound(self.unit.source.path, self.unit.source.text)
        missing = {name for name in missing if self.env.lookup(name) is None}
        read = next((name for name in _first_reads(original) if name in missing), None) if missing else None
        return None if read is None else self.always_fails(original, "NameError", f"name '{read}' is not defined")

    def always_fails(self, original: Statement, error: str, why: str) -> list[Statement]:
        """A statement that raises in torch raises here, too; what follows it in its block is never reached."""
        block = self.blocks[-1]
        never = block.statements[block.index + 1 :]
        del block.statements[block.index + 1 :], block.positions[block.index + 1 :]
        self.unit.report(Unsupported("MIG505", why), original)
        return [suites.in_place_of([original, *never], nodes.statement(f'raise {error}("{why}")'))]


def _first_reads(statement: Statement) -> list[str]:
    """The names that a statement reads in any case as soon as it is reached."""
    visitor = _Evaluated()
    for node in suites.evaluated(statement):
        walk(node, visitor)
    return visitor.found


class _Evaluated(cst.CSTVisitor):
    """Names that are read whenever an expression is evaluated: not those of a side that may not be taken, or of a
    function that is only made."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def visit_Name(self, node: cst.Name) -> None:
        self.found.append(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return self._only(node.value)

    def visit_Arg(self, node: cst.Arg) -> bool:
        return self._only(node.value)

    def visit_IfExp(self, node: cst.IfExp) -> bool:
        return self._only(node.test)

    def visit_BooleanOperation(self, node: cst.BooleanOperation) -> bool:
        return self._only(node.left)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Name)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        return self._only(node.value)

    def _nothing(self, node: cst.CSTNode) -> bool:
        return False

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _nothing
    visit_Global = visit_Nonlocal = visit_Import = visit_ImportFrom = visit_Del = _nothing

    def _only(self, node: cst.CSTNode | None) -> bool:
        if node is not None:
            walk(node, self)
        return False

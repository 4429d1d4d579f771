"""Calls that may give back what they are given, or a view of it: `h = self.drop(x)` is x where nothing is dropped.

A change of the one in place is then a change of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import Function, Module, Tensor
from migrate.lowering.statements.changed_inputs import ChangedInputs
from migrate.lowering.statements.other_names import shown
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_DROPOUTS = [f"{kind}{axes}" for kind in ("Dropout", "AlphaDropout") for axes in ("", "1d", "2d", "3d")]
_LAYERS = frozenset(
    f"torch.nn.{one}" for one in ("Identity", "Flatten", "Unflatten", "FeatureAlphaDropout", *_DROPOUTS)
)
_FUNCTIONS = frozenset(
    [f"torch.nn.functional.{one}" for one in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")]
    + ["torch.dropout", "einops.rearrange"]
)


class HandedThrough(ChangedInputs):
    """Which names a value may be seen under that a call has made of them."""

    def seen_through(self, targets: Sequence[cst.CSTNode], value: Expr) -> set[str]:
        """The names that show one tensor once a call has been given it and its result has names; none where nothing
        reads the others any more."""
        bound = {name for target in targets for name in usage.target_names(target)}
        given = {name for name in self.handed_through(value) if isinstance(self.kind_of_name(name), Tensor)}
        seen = any(name in self.env.shared or (name not in bound and self.live(name)) for name in given)
        return bound | given if seen else set()

    def handed_through(self, value: Expr) -> set[str]:
        """The names of whose memory a call may give something back."""
        if not isinstance(value, cst.Call) or not value.args or not self._hands_through(value):
            return set()
        return shown(value.args[0].value)

    def _hands_through(self, call: cst.Call) -> bool:
        name = self.torch_name(call.func) or nodes.dotted(call.func) or ""
        if name in _FUNCTIONS or name.rpartition(".")[2] == "rearrange":
            return True
        kind = self.own_module(call.func)
        if isinstance(kind, Module):
            return any(self._gives_back(option, frozenset()) for option in kind.options)
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        return facts is not None and self._returns_given(facts.node, facts.owner, frozenset({facts.qualname}))

    def _gives_back(self, node: Node, seen: frozenset[str]) -> bool:
        """Whether a module may return its input."""
        if isinstance(node, LayerNode):
            return node.torch in _LAYERS
        if isinstance(node, ChoiceNode):
            return any(self._gives_back(child, seen) for child in node.children)
        if isinstance(node, ListNode):
            each = [self._gives_back(child, seen) for child in node.children]
            return node.infix.startswith("/") and (any(each) if node.dynamic else all(each))
        if not isinstance(node, ClassNode) or node.cls in seen:
            return False
        forward = self.script.functions.get(f"{node.cls}.forward")
        return forward is not None and self._returns_given(forward.node, node.cls, seen | {node.cls})

    def _returns_given(self, function: cst.FunctionDef, cls: str, seen: frozenset[str]) -> bool:
        """Whether a function may return one of its arguments."""
        names = [one.name.value for one in function.params.params]
        return self._goes_out(suites.suite_of(function.body.body), set(names) - {"self"}, cls, seen)

    def _goes_out(self, body: Sequence[Statement], given: set[str], cls: str, seen: frozenset[str]) -> bool:
        """Whether a block may return what the names in `given` show; they are those of its end afterwards."""
        for statement in body:
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                continue
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, cst.Return) and small.value is not None:
                        return self._of(small.value, given, cls, seen)
                    if isinstance(small, cst.Assign):
                        bound = {name for each in small.targets for name in usage.target_names(each.target)}
                        passed = self._of(small.value, given, cls, seen)
                        given -= bound
                        given |= bound if passed else set()
                continue
            inner = [one for one in every(statement, cst.IndentedBlock) if one is not statement]
            before = set(given)
            for block in inner:
                side = set(before)
                if self._goes_out(suites.suite_of(block.body), side, cls, seen):
                    return True
                given |= side
        return False

    def _of(self, value: Expr, given: set[str], cls: str, seen: frozenset[str]) -> bool:
        """Whether a value may be what one of the names shows."""
        if isinstance(value, cst.Tuple):
            return any(self._of(one.value, given, cls, seen) for one in value.elements)
        if isinstance(value, cst.IfExp):
            return self._of(value.body, given, cls, seen) or self._of(value.orelse, given, cls, seen)
        if shown(value) & given:
            return not (isinstance(value, cst.Attribute | cst.Subscript) and nodes.root(value) is value)
        if not isinstance(value, cst.Call) or not value.args or not self._of(value.args[0].value, given, cls, seen):
            return False
        facts, path = self.script.classes.get(cls), nodes.dotted(value.func) or ""
        if not path.startswith("self."):
            kind = self.kind_of(value.func)
            named = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
            if named is None or named.qualname in seen:
                return False
            return self._returns_given(named.node, named.owner, seen | {named.qualname})
        child = facts.children.get(path.removeprefix("self.")) if facts is not None else None
        return child is not None and self._gives_back(child, seen)

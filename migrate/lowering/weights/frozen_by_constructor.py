"""Weights of its parts that a constructor freezes: `for p in self.encoder.parameters(): p.requires_grad = False`, and
`self.encoder.requires_grad_(False)`. Optimizers leave them as they are, wherever a model of the class is trained."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Module, SelfModule
from migrate.known.weight_kinds import LISTING
from migrate.lowering.modules.attributes import grows_later
from migrate.lowering.weights.freezing import flag_of, flag_told, switches
from migrate.lowering.weights.frozen_modules import FrozenModules
from migrate.lowering.weights.selections import names_of_pair
from migrate.manifest import Leaf
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.weights import weights_of


class FrozenByConstructor(FrozenModules):
    """Statements of constructors that freeze weights."""

    def frozen_parts_loop(self, node: cst.For) -> list[Statement] | None:
        """A loop that freezes; None for other loops."""
        func = node.iter.func if isinstance(node.iter, cst.Call) and not node.iter.args else None
        names = names_of_pair(node.target)
        body = suites.suite_of(node.body.body)
        if self.context != "setup" or not isinstance(func, cst.Attribute) or func.attr.value not in LISTING:
            return None
        plain = names is not None and len(names) == 1 + (func.attr.value == "named_parameters")
        if names is None or not plain or "requires_grad" not in nodes.code(node.body) or node.orelse is not None:
            return None
        if not all(switches(statement, names[-1]) for statement in body):
            return None
        leaves = self._leaves(func.value, node)
        if leaves is None:
            return None
        for name, leaf in leaves:
            self._switched(leaf, body, {names[0]: name, names[-1]: leaf}, names[-1])
        return []

    def frozen_parts_call(self, node: cst.Call) -> list[Statement] | None:
        """`self.encoder.requires_grad_(False)` as a statement; None for other calls."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "requires_grad_":
            return None
        leaves = self._leaves(func.value, node)
        if leaves is None:
            return None
        for _, leaf in leaves:
            self._freeze(leaf, self._flag(node.args[0].value if node.args else nodes.name("True")))
        return []

    def _leaves(self, owner: Expr, node: cst.CSTNode) -> list[tuple[str, Leaf]] | None:
        """The weights of a part of the module that is being made, by their names in the part; None where it is none."""
        path = _path(owner)
        kind = None if path is None else self.asked(owner).kind
        if path is None or not isinstance(kind, Module | SelfModule):
            return None
        facts = self.script.classes[self.cls]
        attribute = path.partition(".")[0]
        later = attribute in facts.rebound or bool(attribute and grows_later(facts, attribute))
        if self.conditions or self.loops or later or not self.scope.endswith(".__init__"):
            told = nodes.code(node.iter if isinstance(node, cst.For) else node)
            raise Unsupported("MIG204", f"{told}: which weights are frozen is told while it runs")
        made = {*facts.seen, *facts.parameters}
        found: list[tuple[str, Leaf]] = []
        for leaf in weights_of(self.script, self.cls):
            inside = leaf.torch.startswith(f"{path}.") if path else leaf.torch.partition(".")[0] in made
            if inside and leaf.flax.startswith("params/"):
                found.append((leaf.torch.removeprefix(f"{path}."), leaf))
        return found

    def _switched(self, leaf: Leaf, body: Sequence[Statement], bound: dict[str, object], weight: str) -> None:
        """What the statements of such a loop do to one weight."""
        for statement in body:
            if isinstance(statement, cst.If):
                holds = self.test_of_weight(statement.test, bound, frozenset())
                self._switched(leaf, suites.sides(statement)[0 if holds else 1], bound, weight)
                continue
            value = flag_of(statement, weight)
            if value is not None:
                self._freeze(leaf, self._flag(value))

    def _flag(self, value: Expr) -> bool:
        flag = flag_told(value)
        flags = self.flags(value) if flag is None else {flag}
        if len(flags) != 1:
            raise Unsupported("MIG401", f"requires_grad = {nodes.code(value)} is told while it runs")
        return flags.pop()

    def _freeze(self, leaf: Leaf, on: bool) -> None:
        frozen = self.script.classes[self.cls].found_frozen_parts
        (frozen.discard if on else frozen.add)(leaf.torch)


def _path(node: Expr) -> str | None:
    """`self.encoder[0].conv` as "encoder.0.conv", `self` as ""; None of other expressions."""
    if isinstance(node, cst.Name):
        return "" if node.value == "self" else None
    if isinstance(node, cst.Attribute):
        name: str | None = node.attr.value
    elif isinstance(node, cst.Subscript):
        key = nodes.looked_up(node)
        name = str(key) if isinstance(key, str) or (isinstance(key, int) and key >= 0) else None
    else:
        return None
    owner = _path(node.value)
    return None if owner is None or name is None else f"{owner}.{name}".lstrip(".")

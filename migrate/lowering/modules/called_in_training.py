"""Parts of a module that its forward pass calls in training alone: `if self.training: aux = self.aux(x)`.

Flax makes the weights of a part as it is called, and a model is made in eval mode: such a branch is taken then as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import Node
from migrate.known.facts import ClassFacts
from migrate.known.qualified import spelled
from migrate.known.script import classes_in, layers_in
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_MODE = "self.training"
IN_TRAINING = nodes.expression(f"{_MODE} or self.is_initializing()")


class CalledInTraining(Scope):
    """Finding those branches."""

    def open_branches(self, facts: ClassFacts, methods: Mapping[str, cst.FunctionDef]) -> None:
        """Notes the mentions of the mode that decide them. Where one returns, the caller has another result as it makes
        its own weights, and must not care."""
        walk = _Walk(methods, {name for name, node in facts.children.items() if _has_weights(node)})
        if "forward" not in methods or not walk.parts:
            return
        walk.method("forward", ())
        alone = {name: uses for name, uses in walk.uses.items() if all(uses)}
        branches = {id(branch.test): (name, branch) for name, uses in alone.items() for use in uses for branch in use}
        inside = any(
            facts.name in classes_in(node) for one in self.script.classes.values() for node in one.children.values()
        )
        for name, branch in branches.values():
            if branch.returns and inside:
                raise Unsupported(
                    "MIG201", f"{spelled(facts.name)} calls self.{name} in training alone, and returns there"
                )
        facts.opened = tuple(branch.test for _, branch in branches.values())


def _has_weights(node: Node) -> bool:
    return bool(classes_in(node)) or any(layer.weights for layer in layers_in(node))


@dataclass(frozen=True)
class _Branch:
    """A branch that is taken in training alone: the mention of the mode in its test, and whether it returns."""

    test: Expr
    returns: bool


@dataclass
class _Walk:
    """A walk through a forward pass, that notes each use of a part with the branches around it."""

    methods: Mapping[str, cst.FunctionDef]
    parts: set[str]
    uses: dict[str, list[tuple[_Branch, ...]]] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)  # methods that are being walked through

    def method(self, name: str, around: tuple[_Branch, ...]) -> None:
        if name not in self.inside:
            self.inside.append(name)
            self.block(suites.suite_of(self.methods[name].body.body), around)
            self.inside.pop()

    def block(self, body: Sequence[cst.CSTNode], around: tuple[_Branch, ...]) -> None:
        for number, statement in enumerate(body):
            if not isinstance(statement, cst.If):
                self.other(statement, around)
                continue
            self.expression(statement.test, around)
            side = suites.suite_of(statement.body.body)
            self.block(side, _within(around, _told(statement.test), side))
            mode = _told_otherwise(statement.test)
            if statement.orelse is not None:
                others = [statement.orelse] if isinstance(statement.orelse, cst.If) else []
                others = others or suites.suite_of(statement.orelse.body.body)
                self.block(others, _within(around, mode, others))
            elif mode is not None and suites.exits(side):
                return self.block(body[number + 1 :], _within(around, mode, body[number + 1 :]))
        return None

    def other(self, node: cst.CSTNode, around: tuple[_Branch, ...]) -> None:
        """Any other statement, with the blocks inside it."""
        inner = list(every(node, cst.If, closed=cst.If))
        self.expression(node, around, closed=cst.If)
        for one in inner:
            self.block([one], around)

    def expression(self, node: cst.CSTNode, around: tuple[_Branch, ...], closed: type | tuple[type, ...] = ()) -> None:
        """What an expression uses, where `a if self.training else b` has branches as well."""
        for choice in every(node, cst.IfExp, closed=(cst.IfExp, cst.If) if closed else cst.IfExp):
            self.expression(choice.test, around)
            self.expression(choice.body, _within(around, _told(choice.test), ()))
            self.expression(choice.orelse, _within(around, _told_otherwise(choice.test), ()))
        compared = every(node, cst.Comparison)
        asked = {id(one.left) for one in compared if nodes.is_literal(one.comparisons[0].comparator, None)}
        for path in every(node, cst.Attribute, closed=(cst.IfExp, cst.If) if closed else cst.IfExp):
            if nodes.dotted(path.value) != "self" or id(path) in asked:
                continue
            if path.attr.value in self.parts:
                self.uses.setdefault(path.attr.value, []).append(around)
            elif path.attr.value in self.methods:
                self.method(path.attr.value, around)


def _within(around: tuple[_Branch, ...], mode: Expr | None, body: Sequence[cst.CSTNode]) -> tuple[_Branch, ...]:
    """The branches around a block that is taken where the mode says so."""
    returns = any(True for statement in body for _ in every(statement, cst.Return, closed=cst.FunctionDef))
    return around if mode is None else (*around, _Branch(mode, returns))


def _told(test: Expr) -> Expr | None:
    """The mention of the mode without which a test fails."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _told(test.left) or _told(test.right)
    return test if nodes.dotted(test) == _MODE else None


def _told_otherwise(test: Expr) -> Expr | None:
    """The mention of the mode without which a test holds."""
    if not isinstance(test, cst.UnaryOperation) or not isinstance(test.operator, cst.Not):
        return None
    return test.expression if nodes.dotted(test.expression) == _MODE else None

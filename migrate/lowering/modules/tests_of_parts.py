"""Tests of a constructor that only ask whether the weight is there which is filled below them:

    if hasattr(self.head, "fc") and isinstance(self.head.fc, nn.Linear):
        nn.init.zeros_(self.head.fc.weight)

What is asked for a weight goes to the layer that is made under its path, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate.known.constructed import LayerNode
from migrate.known.kinds import Module
from migrate.layers.table import TABLE
from migrate.lowering.modules.layer_tests import LayerTests
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement


class TestsOfParts(LayerTests):
    """Such tests, and the branches under them."""

    def asks_for_part(self, test: Expr, written: str, is_it: Callable[[Expr], bool]) -> bool:
        """Whether a test holds wherever there is a weight, or what has it, as a constructor writes it. `is_it`: whether
        an expression is that weight."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            layer = self._layer_asked(nodes.bare(test.expression))
            return layer is not None and layer[1] and written.startswith(f"{layer[0]}.") and written.count(".") > 2
        match test:
            case cst.Comparison(left=cst.Attribute() as left, comparisons=[cst.ComparisonTarget(operator=cst.IsNot())]):
                there = nodes.is_literal(test.comparisons[0].comparator, None)
                return there and (f"{written}.".startswith(f"{nodes.dotted(left)}.") or is_it(left))
            case cst.Call(func=cst.Name(value="hasattr"), args=[cst.Arg(value=owner), cst.Arg(value=name)]):
                return f"{written}.".startswith(f"{nodes.dotted(owner)}.{nodes.literal(name)}.")
        layer = self._layer_asked(test)
        return layer is not None and layer[1] and written.rpartition(".")[0] == layer[0]

    def _layer_asked(self, test: Expr) -> tuple[str, bool] | None:
        """The path of `isinstance(self.head, nn.Linear)`, and whether each layer that is made there is one of those,
        without parts; None of other tests."""
        asked = self.asked_layers(test) if self.context == "setup" and isinstance(test, cst.Call) else None
        path = nodes.dotted(test.args[0].value) if asked is not None and isinstance(test, cst.Call) else None
        if asked is None or path is None or not isinstance(asked[0].kind, Module):
            return None
        those, others = self.told_apart(asked[0].kind, asked[1])
        layers = all(isinstance(one, LayerNode) and one.torch in TABLE for one in those)
        alone = layers and not any("." in w.torch for one in those for w in TABLE[getattr(one, "torch", "")].weights)
        return path, bool(those) and alone and not any(isinstance(one, LayerNode) for one in others)

    def initial_branch(self, node: cst.If) -> list[Statement] | None:
        """A branch on what parts there are that only fills weights; None of other branches."""
        sides = [suites.suite_of(node.body.body)]
        if isinstance(node.orelse, cst.Else):
            sides.append(suites.suite_of(node.orelse.body.body))
        asks = any(self._asks_for_layers(one) for one in parts_of(node.test))
        if self.context != "setup" or not asks or not all(self._gives_weights(one) for side in sides for one in side):
            return None
        told = [self._decided(one) for one in parts_of(node.test)]
        if False in told:
            return (
                []
                if node.orelse is None
                else self.suite(sides[1] if sides[1:] else [cst.ensure_type(node.orelse, cst.If)])
            )
        if None not in told:
            return self.suite(node.body.body)
        made: list[Statement] = []
        self.conditions.append(node.test)
        made += self.suite(node.body.body)
        self.conditions[-1] = cst.UnaryOperation(cst.Not(), nodes.parenthesized(node.test))
        if isinstance(node.orelse, cst.If):
            made += self.suite([node.orelse])
        elif node.orelse is not None:
            made += self.suite(node.orelse.body.body)
        self.conditions.pop()
        return made

    def _decided(self, test: Expr) -> bool | None:
        """Whether `isinstance(self.head, nn.Linear)` holds; None where an argument tells, and of other tests."""
        asked = self.asked_layers(test) if isinstance(test, cst.Call) else None
        if asked is None or not isinstance(test, cst.Call) or not isinstance(asked[0].kind, Module):
            return None
        those, others = self.told_apart(asked[0].kind, asked[1])
        if those and not others:
            return None if self.may_be_none(test.args[0].value) else True
        return None if those else False

    def _asks_for_layers(self, test: Expr) -> bool:
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self._asks_for_layers(nodes.bare(test.expression))
        called = nodes.dotted(test.func) if isinstance(test, cst.Call) else None
        own = isinstance(test, cst.Call) and bool(test.args) and (nodes.dotted(test.args[0].value) or "")[:5] == "self."
        return called in ("isinstance", "hasattr") and own

    def _gives_weights(self, statement: Statement) -> bool:
        """Whether a statement fills a weight, or is a branch of such ones."""
        if isinstance(statement, cst.If):
            others = suites.suite_of(statement.orelse.body.body) if isinstance(statement.orelse, cst.Else) else []
            further = [statement.orelse] if isinstance(statement.orelse, cst.If) else others
            return all(self._gives_weights(one) for one in [*suites.suite_of(statement.body.body), *further])
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call):
            return False
        named = (self.torch_name(call.func) or "").startswith("torch.nn.init.")
        return named or (nodes.code(call.func).startswith("self.") and nodes.code(call.func).endswith("_"))


def parts_of(test: Expr) -> list[Expr]:
    """The tests that must all hold for one to hold."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*parts_of(test.left), *parts_of(test.right)]
    return [nodes.bare(test) if test.lpar else test]

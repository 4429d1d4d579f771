"""Loops over the parameters that a test of names chooses: `for n, p in model.named_parameters(): if "bias" in n: ...`.

Which parameters those are is told here, from their names in torch; the output tells them by their names in Flax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.lowering.weights.made_without_gradient import frozen_somewhere
from migrate.lowering.weights.selections import Selections, asks_for_gradients, names_of_pair
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr


class ChosenWeights(Selections):
    """Some of the parameters of a model, one by one."""

    def over_chosen(self, node: cst.For) -> tuple[cst.For, Value] | None:
        """`for name, p in model.named_parameters(): if "bias" in name: ...`, a loop over some parameters, as that loop,
        and what it runs through; None for other loops."""
        body = suites.suite_of(node.body.body)
        guard = body[0] if body else None
        if node.orelse is not None or not isinstance(guard, cst.If) or guard.orelse is not None:
            return None
        inner = suites.suite_of(guard.body.body)
        test, rest = guard.test, inner
        if len(body) > 1:
            if len(inner) != 1 or nodes.code(inner[0]).strip() != "continue":
                return None
            test, rest = cst.UnaryOperation(cst.Not(), nodes.parenthesized(guard.test)), body[1:]
        chosen = self.chosen(node.target, node.iter, [test], usage.loads(rest))
        if chosen is None:
            return None
        target, value = chosen
        return node.with_changes(target=target, body=suites.block_of(node.body, list(rest))), value

    def chosen(
        self, target: cst.CSTNode, iterated: Expr, tests: Sequence[Expr], read: Sequence[str]
    ) -> tuple[cst.Name, Value] | None:
        """What the parameters are called for which tests of their names hold, and a list of them; None where the tests
        are of something else, or what is done with them reads the names as well."""
        names = names_of_pair(target)
        about_frozen = any(map(asks_for_gradients, tests)) and frozen_somewhere(self.script)
        if names is None or names[0] in (read if len(names) == 2 else ()):
            return None
        if not about_frozen and (len(names) != 2 or names[0] not in usage.loads(tests)):
            return None
        whole = self.called_selection(iterated) if isinstance(iterated, cst.Call) else None
        if whole is None or len(whole.leaves) != 1:
            return None
        for test in tests:
            whole = self.those(whole, test, names)
        return cst.Name(names[-1]), self.listed(replace(whole, named=False))

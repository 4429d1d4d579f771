"""Loops, and the ways out of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.known.kinds import Tensor
from migrate.known.weight_kinds import Parameters, WeightTree
from migrate.lowering.expressions.elements import loop_kind
from migrate.lowering.expressions.layers_apart import taken_apart
from migrate.lowering.expressions.passed_on import gone_over
from migrate.lowering.host.data_loading import DataLoading
from migrate.lowering.models.object_history import given_in_calls
from migrate.lowering.optimizers.optimizer_statements import OptimizerStatements
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.blocks import NextTurn
from migrate.lowering.statements.branches import Branches
from migrate.lowering.statements.filled_dicts import FilledDicts
from migrate.lowering.statements.other_names import held
from migrate.lowering.statements.scanned_loops import ScannedLoops
from migrate.lowering.unit import Environment, stays
from migrate.lowering.weights.chosen_weights import ChosenWeights
from migrate.lowering.weights.order_of_parameters import refuse_order
from migrate.lowering.weights.selections import names_of_pair
from migrate.lowering.weights.weight_trees import each_of_tree
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

_TRIALS = 2  # how many loops, one in another, may be lowered for what they make known


class Loops(ChosenWeights, Branches, DataLoading, OptimizerStatements, ScannedLoops, FilledDicts):
    """`for` and `while` loops: what a turn makes known to the next one, and to what comes after them."""

    def settle(self, body: Sequence[cst.CSTNode]) -> list[Statement]:
        """Before a branch or a loop: names whose channels are last and that it touches go back to torch's order."""
        touched = set(usage.loads(body)) | set(usage.stores(body))
        made: list[Statement] = []
        for name, rank in list(self.env.last.items()):
            if name in touched:
                value = Value(nodes.name(name), Tensor(rank=rank), "last")
                made.append(nodes.statement(f"{name} = {{x}}", x=layouts.first(value)))
                del self.env.last[name]
        return made

    def small_Break(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement]:
        """Leaves a loop: what is known here may be what is known after it."""
        return self.leaving(line, self.broken)

    def small_Continue(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement]:
        """Leaves a turn, as its end does."""
        return self.leaving(line, self.cut_short)

    def leaving(self, line: cst.SimpleStatementLine, ways: list[list[Environment]]) -> list[Statement]:
        """A way out of the turn at hand. ways: those of its kind, for each loop around."""
        if not self.heads:
            return [line]
        made = self.ended([], self.env.copy(), self.heads[-1])
        ways[-1].append(self.env.copy())
        return [*made, line]

    def loop_body(
        self, body: cst.BaseSuite, bind: Callable[[], list[Statement]], surely: bool = False
    ) -> list[Statement]:
        """The body of a loop: once for what it makes known to its own next turn, then for good. surely: it has a turn.

        Inside a loop that is itself lowered for what it makes known a second time, once is all: each loop in another
        would double the work.
        """
        start = self.env.copy()
        self.loops += 1
        if self.unit.trials < _TRIALS:
            with self.unit.discarding(), self.unit.trial(), self.nothing_made():
                self.lowered_turn(body, bind, start)
            self.env.join(start)
        head = self.env.copy()
        made, broken = self.lowered_turn(body, bind, start)
        modes = dict(self.env.modes) if surely and not suites.exits(made) else None
        self.env.join(head)
        self.env.modes = self.env.modes if modes is None else modes
        for way in broken:
            self.env.join(way)
        self.loops -= 1
        return made

    def has_a_turn(self, node: Expr) -> bool:
        """Whether a loop over something surely has a turn: over items that are written out, or `range` of a number."""
        node = self.gone_through(node)
        match node:
            case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=count, star="")]):
                return self._is_positive(count)
            case cst.Call(func=cst.Name("enumerate" | "list"), args=[cst.Arg(value=inner, star=""), *_]):
                return self.has_a_turn(inner)
        return bool(self.known_items(node))

    def _is_positive(self, node: Expr) -> bool:
        """Whether a count is at least one: as it is written, or as all calls of this function give it."""
        name, facts = nodes.dotted(node) or "", self.facts
        if facts is None or name not in facts.parameter_names or name in usage.stores(facts.node.body):
            return _counts(self.env.definitions.get(name, node))
        given = given_in_calls(facts, name)
        if len(given) < len(facts.calls):
            given.append(facts.defaults.get(name, node))
        return bool(given) and all(map(_counts, given))

    @contextlib.contextmanager
    def nothing_made(self) -> Iterator[None]:
        """Weights that are made inside are still to be made afterwards."""
        pending, ready, waiting = list(self.pending), set(self.ready), set(self.waiting)
        yield
        self.pending, self.ready, self.waiting = pending, ready, waiting

    def lowered_turn(
        self, body: cst.BaseSuite, bind: Callable[[], list[Statement]], start: Environment
    ) -> tuple[list[Statement], list[Environment]]:
        """A turn of a loop, and what is known where it leaves the loop. start: what was known before the first."""
        self.heads.append(start)
        self.broken.append([])
        self.cut_short.append([])
        made = bind()
        made += self.suite(body.body, cyclic=True)
        self.heads.pop()
        if not suites.exits(made):
            made = self.ended(made, self.env, start)
        for way in self.cut_short.pop():
            self.env.join(way)
        return made, self.broken.pop()

    def statement_For(self, node: cst.For) -> list[Statement]:
        rates = self.rate_loop(node)
        if rates is not None:
            return rates
        about_weights = self.frozen_parts_loop(node)
        if about_weights is None:
            about_weights = self.freezing_loop(node)
        if about_weights is None and self.context in HOST_CONTEXTS:
            about_weights = self.freezing_modules_loop(node)
        if about_weights is None and self.context in HOST_CONTEXTS:
            about_weights = self.sorting_loop(node)
        if about_weights is not None:
            return about_weights
        if self.context in HOST_CONTEXTS and self.only_cuts_constants(node):
            return []
        updates = self.state_loop(node) or self.parameter_loop(node) if self.context in HOST_CONTEXTS else None
        if updates is not None:
            return updates
        initialized = self.modules_loop(node)
        if initialized is not None:
            return initialized
        settled = self.settle([node])
        chosen = self.over_chosen(node)
        by_name = self.under_torch_names(node) if chosen is None and self.context in HOST_CONTEXTS else None
        if by_name is not None:
            return [*settled, *by_name]
        node, some = chosen if chosen is not None else (node, None)
        scan = self.scan_of(node) if some is None else None
        with self.unit.discarding() if scan is not None else contextlib.nullcontext():
            iterated = some or taken_apart(self, self.expr(node.iter))
        if isinstance(iterated.kind, Parameters):
            refuse_order(node, suites.suite_of(node.body.body))
        if isinstance(iterated.kind, WeightTree):
            refuse_order(node, suites.suite_of(node.body.body))
            iterated = each_of_tree(iterated)
        iterated = replace(iterated, kind=gone_over(self, iterated.kind))
        element = loop_kind(iterated.kind, id(node))

        def bind() -> list[Statement]:
            self.bind(node.target, element)
            names, known = names_of_pair(node.target), iterated.kind
            if names and isinstance(known, Parameters) and known.named and len(known.models) == 1:
                self.named_weights[names[-1]] = names[0], known.models[0]
            self.retire(usage.target_names(node.target), None)
            self.define_loop(node.target, node.iter)
            if held(self, node.iter):
                self.env.shared |= set(usage.target_names(node.target))
            return self.converted([node.target])

        filled = self.filled_in_turns(node)
        with self.from_turn_to_turn(), self.then(NextTurn(node.body.body)):
            before, self.before = self.before, []
            body = self.loop_body(node.body, bind, surely=self.has_a_turn(node.iter))
            self.before = before
        if filled is not None:
            self.fill_in_turns(*filled)
        orelse = node.orelse and node.orelse.with_changes(
            body=suites.block_of(node.orelse.body, self.suite(node.orelse.body.body))
        )
        if not body and orelse is None and self.context == "setup":
            return settled  # initial weights alone
        scanned = self.as_scan(node, scan, body) if scan is not None else None
        if scanned is not None:
            return [*settled, *scanned]
        if scan is not None:
            iterated = taken_apart(self, self.expr(node.iter))  # after all
        made = node.with_changes(iter=layouts.first(iterated), body=suites.block_of(node.body, body), orelse=orelse)
        return [*settled, made]

    def statement_While(self, node: cst.While) -> list[Statement]:
        settled = self.settle([node])
        with self.conditionally():
            test = self.expr(node.test)
        if isinstance(test.kind, Tensor) and self.under_jit:
            raise stays(node.test, "a loop of unknown length has no gradient in JAX")
        with self.from_turn_to_turn(), self.then(NextTurn(node.body.body)):
            body = self.loop_body(node.body, list)
        return [*settled, node.with_changes(test=layouts.first(test), body=suites.block_of(node.body, body))]


def _counts(node: Expr) -> bool:
    """Whether a node is a number from one on."""
    number = nodes.literal(node)
    return isinstance(number, int) and number > 0

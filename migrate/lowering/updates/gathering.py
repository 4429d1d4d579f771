"""Lowering a loop over micro batches: it fetches them, one call of a jitted function differentiates them all."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Tensor
from migrate.lowering.plainer.plain_terms import PlainTerms
from migrate.lowering.statements.blocks import Block
from migrate.lowering.statements.control_flow import ControlFlow
from migrate.lowering.updates.micro_batches import MicroBatchFinding
from migrate.lowering.updates.micro_scan import MICRO_BATCHES
from migrate.lowering.updates.region import Gathering, MicroBatches
from migrate.lowering.updates.step_function import StepFunctions
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement


class MicroBatchLoops(PlainTerms, StepFunctions, ControlFlow, MicroBatchFinding):
    """Loops over micro batches."""

    def micro_batches_at(self, statements: Sequence[Statement], index: int) -> MicroBatches | None:
        """The loop at a statement of a block, where it can be lowered as one that gathers micro batches."""
        loop = statements[index]
        if not self.may_gather(loop):
            return None
        own = suites.suite_of(loop.body.body)
        block = Block(list(own), list(range(len(own))), cyclic=True)
        self.say_plainly(block)
        for found in self.micro_batches_of(loop, block, statements, index):
            with self.then(statements[index + len(found.statements) :]):
                if self.can_be_lowered(found):
                    return found
        return None

    def can_be_lowered(self, found: MicroBatches) -> bool:
        """Whether all turns of a loop over micro batches make one pure function, as a trial shows."""
        start, before = self.env.copy(), self.before
        self.before = []
        try:
            with self.unit.discarding(), self.unit.trial():
                return self.lower_micro_batches(found) is not None
        except Unsupported:  # which is said where the loop is lowered as it is
            return False
        finally:
            self.env.replace(start)
            self.before = before

    def lower_micro_batches(self, found: MicroBatches) -> list[Statement] | None:
        """The loop that fetches, the call, and what reads the losses; None where a turn is no pure function."""
        gathering = self.gathering = Gathering(found, frozenset(usage.changes(found.fetching)))
        try:
            with self.then([*found.reading, *found.after]):
                made = self.statement_For(found.fetching)
        finally:
            self.gathering = None
        if gathering.call is None or self.binds_state(made, gathering.call):
            return None
        first = nodes.statement(f"{MICRO_BATCHES} = []").with_changes(leading_lines=made[0].leading_lines)
        made = [first, made[0].with_changes(leading_lines=[]), *made[1:], gathering.call]
        norms = {one.bound for one in found.clips}
        by_turn = {name: metric for name, metric in gathering.taken.items() if name not in norms}
        with self.then(found.after):
            made += self.reading(found.reading, by_turn)
        for name in norms & gathering.taken.keys():
            self.bind(nodes.name(name), Tensor("float", 0))
            made.append(nodes.statement(f'{name} = metrics["{gathering.taken[name]}"]'))
        for position, statement in enumerate(found.after):
            with self.then(found.after[position + 1 :]):
                made += self.guarded(statement)
        return made

    def binds_state(self, fetching: Sequence[Statement], call: Statement) -> bool:
        """Whether a loop that fetches binds anew what the call takes beside micro batches: weights, what is drawn."""
        stored = set(usage.stores(fetching)) | {
            f"self.{name}" for one in fetching for name in usage.attributes_set(one)
        }
        return bool(stored & {*usage.paths(call)} - {MICRO_BATCHES, self.unit.key})

    def reading(self, statements: Sequence[Statement], taken: dict[str, str]) -> list[Statement]:
        """What reads the losses, once for each of them; what follows reads the last."""

        def bind() -> list[Statement]:
            for name in taken:
                self.env.kinds[name] = Tensor("float", 0)
            return []

        body = self.loop_body(suites.block(statements), bind) if statements else bind()
        values = [nodes.expression(f'metrics["{metric}"]') for metric in taken.values()]
        if not body:
            return [
                nodes.statement(f"{name} = {{value}}[-1]", value=value)
                for name, value in zip(taken, values, strict=True)
            ]
        loop = nodes.statements(
            f"for {', '.join(taken)} in {{values}}:\n    pass",
            values=values[0] if len(values) == 1 else nodes.call("zip", *values),
        )[0]
        assert isinstance(loop, cst.For)
        return [loop.with_changes(body=suites.block(body))]

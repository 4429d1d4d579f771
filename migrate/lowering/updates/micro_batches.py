"""A loop that only sums gradients over micro batches is one jitted call: the loop fetches them, a scan goes over them.

    for _ in range(accumulation):            micro_batches = []
        x, y = get_batch()                   for _ in range(accumulation):
        loss = criterion(model(x), y)            x, y = get_batch()
        loss.backward()                          micro_batches.append((x, y))
        total += loss.item()                 params, opt_state, metrics = train_step(params, opt_state, micro_batches)
    optimizer.step()                         for loss in metrics["loss"]:
                                                 total += loss.item()

What fetches keeps its order, and so does what reads the losses; between the two there must be nothing that would tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import libcst as cst

from migrate.known.kinds import Function, Optimizer, Place
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.blocks import Block
from migrate.lowering.updates.finding import RegionFinding
from migrate.lowering.updates.micro_scan import NAMES
from migrate.lowering.updates.region import ClipCall, MicroBatches, loss_slice
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_UNEVEN = ("next", "chunk", "split", "tensor_split")  # what these give may be shorter at the end: nothing to stack


@dataclass(frozen=True)
class _Turn:
    """The statements of one turn: those that become the loss function, those that read what it gives, the others."""

    traced: list[Statement]
    reading: list[Statement]
    fetching: list[Statement]
    backward: Statement
    loss: Expr


class MicroBatchFinding(RegionFinding):
    """Which loops gather micro batches."""

    def may_gather(self, statement: Statement) -> TypeGuard[cst.For]:
        """Whether a statement is a loop that this pass may look at."""
        if self.context not in HOST_CONTEXTS or self.gathering is not None or NAMES & self.unit.taken:
            return False
        return isinstance(statement, cst.For) and _counts(statement) and not suites.may_leave(statement)

    def micro_batches_of(
        self, loop: cst.For, block: Block, statements: Sequence[Statement], index: int
    ) -> list[MicroBatches]:
        """The loop at a statement of a block as one that gathers micro batches, with the optimizer step that follows it
        and without; none where that might not be the same. `block`: its body in plain terms."""
        turn = self.turn(block.statements)
        if turn is None or not self.apart(turn, set(usage.target_names(loop.target))):
            return []
        reached = self.reached([*self.history(index), *turn.traced], turn.loss)
        if not reached or reached & self.script.leaves:
            return []
        own = suites.suite_of(loop.body.body)
        reads = {p for s, p in zip(block.statements, block.positions, strict=True) if s in turn.reading}
        if any(p in reads and s not in turn.reading for s, p in zip(block.statements, block.positions, strict=True)):
            return []
        fetching = self.fetching(loop, [number for number in range(len(own)) if number not in reads])
        alone = MicroBatches([loop], fetching, [own[number] for number in sorted(reads)], turn.backward)
        stepped = self.with_step(alone, statements, index, reached)
        return [alone] if stepped is None else [stepped, alone]

    def fetching(self, loop: cst.For, kept: Sequence[int]) -> cst.For:
        """The loop with some of its statements alone."""
        body = [suites.suite_of(loop.body.body)[number] for number in kept]
        known = self.unit.plain.get(loop)
        if not isinstance(known, cst.For) or suites.suite_of(known.body.body) != body:
            known = loop.with_changes(body=suites.block_of(loop.body, body))
            self.unit.stands_for(known, loop)
            self.unit.plain[loop] = known
        return known

    def turn(self, own: Sequence[Statement]) -> _Turn | None:
        """What each statement of a turn is for; None where it does more than one forward and backward pass."""
        first = next((number for number, one in enumerate(own) if self.differentiated(one) is not None), None)
        loss = self.differentiated(own[first]) if first is not None else None
        if first is None or loss is None:
            return None
        inside = (self.traced(own[:first]) | self.weighed(own[:first])) & loss_slice(
            own[:first], loss, self.stops_gradients
        )
        traced = [own[number] for number in sorted(inside)]
        given = {name for one in traced for name in usage.changes(one)}
        follows = self.traced(own)
        reading: list[Statement] = []
        fetching: list[Statement] = []
        for number, one in enumerate(own):
            if number in inside or number == first:
                continue
            if number in follows or given & set(usage.loads(one)):
                reading.append(one)
                given |= set(usage.changes(one))
            else:
                fetching.append(one)
        others = [*reading, *fetching]
        again = any(nodes.code(call.func).endswith("backward") for one in others for call in usage.calls(one))
        if again or any(self.stepped(one) or self.zeroed(one) for one in own):
            return None
        return _Turn(traced, reading, fetching, own[first], loss)

    def apart(self, turn: _Turn, targets: set[str]) -> bool:
        """Whether all turns can be fetched first, then differentiated, then read: nothing goes from one of these to an
        earlier one, and what is stacked keeps its shape."""
        stored = {name for one in turn.traced for name in usage.changes(one)}
        if any(usage.reads_first(turn.traced, name) for name in stored):
            return False  # carried from one turn to the next
        stored.discard("_")  # which nobody reads
        fetched = targets - {"_"} | {name for one in turn.fetching for name in usage.changes(one)}
        rebound = targets | set(usage.stores(turn.fetching))
        read = set(usage.loads(turn.reading))
        changed = {name for one in turn.reading for name in [*usage.changes(one), *_receivers(one)]} - stored
        if stored & fetched or (read | changed) & fetched:
            return False
        if changed & {*usage.loads(turn.fetching), *usage.loads(turn.traced)} or stored & set(
            usage.stores(turn.reading)
        ):
            return False
        if (fetched - rebound) & set(usage.loads(turn.traced)):
            return False  # one array, filled anew in each turn
        calls = [call for one in turn.fetching for call in usage.calls(one)]
        both = [
            {nodes.dotted(call.func) for one in part for call in usage.calls(one)}
            for part in (turn.reading, turn.fetching)
        ]
        if "print" in both[0] & both[1] or any(map(_sliced, turn.fetching)):
            return False
        return all(map(self.only_reads, turn.reading)) and not any(map(self.may_be_uneven, calls))

    def only_reads(self, statement: Statement) -> bool:
        """Whether a statement only keeps or shows numbers: it runs no function of torch's or of the script's."""
        calls = usage.calls(statement)
        known = any(self.torch_name(call.func) or isinstance(self.kind_of(call.func), Function) for call in calls)
        simple = isinstance(statement, cst.SimpleStatementLine)
        return simple and not known and not self.models_called(statement) and not self.disturbs(statement)

    def may_be_uneven(self, call: cst.Call) -> bool:
        """Whether what a call gives may have another shape in the last turn."""
        if nodes.code(call.func).rpartition(".")[2] in _UNEVEN:
            return True
        kind = self.kind_of(call.func)
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        return facts is not None and any(nodes.dotted(one.func) == "next" for one in usage.calls(facts.node))

    def with_step(
        self, alone: MicroBatches, statements: Sequence[Statement], index: int, reached: set[Place]
    ) -> MicroBatches | None:
        """The same with the optimizer step that follows, where that uses the gradients of the loop alone."""
        clips: list[ClipCall] = []
        after: list[Statement] = []
        for number in range(index + 1, len(statements)):
            one = statements[number]
            clip = self.clip(one)
            if self.calls_on(one, "step", Optimizer):
                models = self.stepped(one)
                limits = [arg.value for one_clip in clips for arg in one_clip.call.args[1:]]
                limits += [one_clip.test for one_clip in clips if one_clip.test is not None]
                settled = not set(usage.loads(limits)) & {
                    n for s in [statements[index], *after] for n in usage.changes(s)
                }
                owned = models == reached and self.cleared(models, index, number + 1) and not self.script.inspected
                whole = list(statements[index : number + 1])
                found = replace(
                    alone, statements=whole, trained=frozenset(models), clips=clips, steps=[one], after=after
                )
                return found if owned and settled else None
            if clip is not None:
                clips.append(clip)
            elif self.zeroed(one) or self.disturbs(one) or self.differentiated(one) is not None:
                return None
            else:
                after.append(one)
        return None


def _counts(loop: cst.For) -> bool:
    """Whether a loop is `for i in range(n)`."""
    counting = isinstance(loop.iter, cst.Call) and nodes.dotted(loop.iter.func) == "range"
    return counting and isinstance(loop.target, cst.Name) and loop.orelse is None and loop.asynchronous is None


def _receivers(statement: Statement) -> set[str]:
    """The names whose methods a statement calls, or whose attributes it sets: `losses.append(x)`."""
    bases = [call.func.value for call in usage.calls(statement) if isinstance(call.func, cst.Attribute)]
    return {name for base in bases for name in usage.loads(base)} | (
        {"self"} if usage.attributes_set(statement) else set()
    )


def _sliced(statement: Statement) -> bool:
    """Whether a statement cuts something out, which may be shorter at the end."""
    return any(found.lower is not None or found.upper is not None for found in every(statement, cst.Slice))

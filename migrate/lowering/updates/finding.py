"""Finding update regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.known.kinds import Device, Model, Optimizer, Place, Scheduler, TorchName
from migrate.known.states import MODES
from migrate.lowering.plainer.copied_input import Exchanging
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.updates.deciding import elements_taken, tests_of_numbers
from migrate.lowering.updates.region import (
    ClipCall,
    MicroBatches,
    Part,
    Region,
    call_of,
    changed_by,
    changed_for_loss,
    has_host_effects,
    loss_slice,
    method_call_of,
    needed_for,
    numbers_taken,
    without_numbers_asked,
)
from migrate.lowering.updates.region_statements import RegionStatements
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.suites import first_line
from migrate.syntax.walking import every


@dataclass
class _Sorting:
    """The statements of a region while they are given their parts."""

    before: list[Statement] = field(default_factory=list)
    kept: list[Statement] = field(default_factory=list)  # those that do not move before the region
    clips: list[ClipCall] = field(default_factory=list)
    traced: set[int] = field(default_factory=set)  # those that work on what a model returned
    weighed: set[int] = field(default_factory=set)  # those that gradients of weights flow through
    parted: bool = False  # whether there is a part before the one at hand
    later: bool = False  # whether some host statement has been put after the region: then those that follow it stay so
    problem: str = ""
    accumulates: bool = False  # optimizers step elsewhere: gradients are cleared where the script says so
    cleared: set[Place] = field(default_factory=set)  # models whose gradients are surely zero before the region

    def movable(self, statement: Statement) -> bool:
        """Whether a statement can run before those that were kept: they neither change what it reads, nor read or
        change what it changes."""
        stores, loads = set(usage.changes(statement)), set(usage.loads(statement))
        changed = {name for kept in self.kept for name in usage.changes(kept)}
        read = {name for kept in self.kept for name in usage.loads(kept)}
        return not (stores & (changed | read)) and not (loads & changed)


class RegionFinding(RegionStatements):
    """Which statements of a block make an update."""

    def region_at(self, statements: Sequence[Statement], index: int) -> Region | None:
        """The update region that starts at a statement of a block: at the first one that the loss depends on and that
        works on what a model returned. It ends with the steps of the optimizers where the gradients are surely those of
        its own backward passes, else with backward(): then they accumulate."""
        if self.context not in HOST_CONTEXTS:
            return None
        first = next((i for i in range(index, len(statements)) if self.differentiated(statements[i]) is not None), None)
        if first is None:
            return None
        loss = self.differentiated(statements[first])
        assert loss is not None
        if any(self.updates_inside(one) or self.updates_apart(one) for one in statements[index:first]):
            return None
        switched = self.passes_before_switch(statements[index:first])
        if switched:
            flows = self.dependencies(statements[index:first], set(usage.loads(self.attached(loss))))[0]
            if not any(flow.statement in switched for flow in flows if flow.models):
                return None  # what comes before is computed in its own mode, as a constant of the loss
        sums = index != first and self.starts_sum(statements[:first], index)
        if index != first and not sums and not self.starts(statements[index]):
            return None
        own = statements[index : first + 1]
        inside = self.traced(own) | self.weighed(own) | ({0} if sums else set())
        needed = loss_slice(statements[index:first], loss, self.stops_gradients)
        if min(inside & needed, default=first - index) != 0 or self.begins_later(own[:-1], needed, loss):
            return None
        if self.gathering is not None and statements[first] is self.gathering.found.backward:
            return self.gathered_region(self.gathering.found, statements, index, first)
        backwards, steps = self.phase(statements, first)
        if not (steps and self.owns_gradients(statements, backwards, steps)):
            self.mark_accumulated(self.reached(self.history(first), loss))
            backwards, steps = [first], []
        found = self.sorted_region(statements, index, backwards, steps)
        if switched and not found.problem:
            said = "the loss goes through a model in two modes"
            return replace(found, problem=f"`{first_line(switched[-1])}`: {said}")
        return found

    def passes_before_switch(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements that go through a model of which a later one changes the mode: `model.train()` behind what
        was computed in eval mode."""
        found: list[Statement] = []
        for number, statement in enumerate(statements):
            switch = next(filter(None, (method_call_of(statement, mode) for mode in MODES)), None)
            kind = self.kind_of(switch.value) if switch is not None else None
            if switch is None or not isinstance(kind, Model) or kind.place is None:
                continue
            if self.env.modes.get(kind.place, "train") != switch.attr.value or found:
                root = self.root(kind.place)
                found = [one for one in statements[:number] if root in self.models_called(one)]
        return found

    def begins_later(self, statements: Sequence[Statement], needed: set[int], loss: Expr) -> bool:
        """Whether all that gradients of a loss flow through comes after a statement that takes values out of JAX for
        it: advantages of a network that numpy sums up are ready before the update."""
        flows = self.dependencies(statements, set(usage.loads(self.attached(loss))))[0]
        first = min((statements.index(flow.statement) for flow in flows if flow.models), default=len(statements))
        own = [name for number in range(first) for name in self.lists_started(statements, number)]
        return any(number < first and has_host_effects(statements[number], own) for number in needed)

    def gathered_region(
        self, found: MicroBatches, statements: Sequence[Statement], index: int, backward: int
    ) -> Region:
        """The region inside a loop over micro batches, with the steps that follow the loop."""
        if not found.steps:
            loss = self.differentiated(statements[backward])
            assert loss is not None
            self.mark_accumulated(self.reached(self.history(backward), loss))
        made = self.sorted_region(statements, index, [backward], [])
        return replace(made, clips=found.clips, steps=found.steps)

    def starts(self, statement: Statement) -> bool:
        """Whether a statement goes through a model, or takes a tensor or weights that gradients are taken of."""
        if self.changes_leaf(statement):
            return False
        return self.goes_through(statement) or bool(self.dependency(statement).models)

    def phase(self, statements: Sequence[Statement], first: int) -> tuple[list[int], list[int]]:
        """The backward passes from the first one on, and the optimizer steps that follow them in the same block."""
        backwards, steps = [first], []
        scheduled: set[Place] = set()  # optimizers whose rates have changed by then: that is said after the update
        for number in range(first + 1, len(statements)):
            statement = statements[number]
            if self.calls_on(statement, "step", Optimizer):
                if scheduled & self.optimizers_stepped(statement):
                    break
                steps.append(number)
            elif steps and self.calls_on(statement, "step", Scheduler):
                scheduled |= self.optimizers_stepped(statement)
            elif self.differentiated(statement) is not None:
                if steps:
                    break
                backwards.append(number)
            elif self.clip(statement) is None and not self.zeroed(statement) and self.disturbs(statement):
                break
        return backwards, steps

    def owns_gradients(self, statements: Sequence[Statement], backwards: list[int], steps: list[int]) -> bool:
        """Whether the gradients that the steps use are those of these backward passes alone."""
        for step in steps:
            models = self.stepped(statements[step])
            own = [i for i in backwards if not any(models & self.zeroed(s) for s in statements[i:step])]
            if not models or not own or not self.cleared(models, own[0], steps[-1] + 1):
                return False
            if self.stepped_again(models, own[0], steps[-1] + 1):
                return False
        return True

    def trained_by(self, statements: Sequence[Statement], backward: int, steps: list[int]) -> frozenset[Place]:
        """The models for whose steps a backward pass counts: their gradients are not cleared in between."""
        if not steps:
            stepped = self.gathering.found.trained if self.gathering is not None else ()
            return frozenset(stepped or self.script.accumulated)
        found: set[Place] = set()
        for step in steps:
            zeroed = {place for s in statements[backward:step] for place in self.zeroed(s)}
            found |= self.stepped(statements[step]) - zeroed
        return frozenset(found | self.script.accumulated)

    def sorted_region(
        self, statements: Sequence[Statement], index: int, backwards: list[int], steps: list[int]
    ) -> Region:
        """The statements of a region, each in its part."""
        end = (steps or backwards)[-1] + 1
        sorting = _Sorting(accumulates=not steps, cleared={m for i in steps for m in self.stepped(statements[i])})
        sorting.traced = {index + number for number in self.traced(statements[index:end])}
        sorting.weighed = {index + number for number in self.weighed(statements[index:end])}
        parts: list[Part] = []
        start = index
        waiting: list[int] = []  # forward passes for later losses
        for number, backward in enumerate(backwards):
            loss, call = self.differentiated(statements[backward]), call_of(statements[backward])
            assert loss is not None and call is not None
            if any(
                arg.keyword is None or arg.keyword.value not in ("retain_graph", "create_graph") for arg in call.args
            ):
                sorting.problem = "arguments of backward()"
            needed = {index + i for i in loss_slice(statements[index:backward], loss, self.stops_gradients)}
            own = [*(i for i in waiting if i in needed), *range(start, backward)]
            waiting = [i for i in waiting if i not in needed]
            later = self.for_later(statements, own, needed, backwards[number + 1 :], sorting)
            own, waiting = [i for i in own if i not in later], [*waiting, *later]
            self.refuse_early_clips([statements[i] for i in own], self.reached(self.history(backward), loss), sorting)
            trained = self.trained_by(statements, backward, steps)
            again, problem = self.replayed(self.history(start), [statements[i] for i in own], loss, set(trained))
            carried = {name for one in again for name in usage.changes(one)}  # computed again for this gradient
            sorting.weighed |= {own[i] for i in self.weighed([statements[i] for i in own], carried)}
            body, early, after = self.part_body(statements, own, needed, sorting)
            if number:
                parts[-1].after.extend(early)
            sorting.parted = True
            known = [*self.history(index), *sorting.before]
            sorting.problem = sorting.problem or problem or self.goes_on_elsewhere([*body, loss], known, trained)
            replayed = [statement for statement in again if statement not in body]
            parts.append(Part(loss, statements[backward], body, replayed, after, trained))
            start = backward + 1
        between = [s for s in statements[start:end] if not self.is_event(s, sorting)]
        using = {id(one) for one in between if self.uses_weights(one)}
        self.script.passes_between |= using
        if using:
            sorting.problem = "between backward() and the step a model is used, whose weights the step changes"
        parts[-1].after.extend(between)
        stepping = [statements[i] for i in steps]
        return Region(list(statements[index:end]), parts, sorting.before, sorting.clips, stepping, sorting.problem)

    def for_later(
        self,
        statements: Sequence[Statement],
        own: Sequence[int],
        needed: set[int],
        backwards: list[int],
        sorting: _Sorting,
    ) -> list[int]:
        """The statements of a part that only a later loss of the region needs, and that can as well run there."""
        if not own:
            return []
        wanted = {
            own[0] + i
            for b in backwards
            for i in loss_slice(statements[own[0] : b], self.differentiated(statements[b]), self.stops_gradients)
        }
        found = [i for i in own if i in wanted & sorting.traced - needed and not has_host_effects(statements[i])]
        for number in reversed(found):
            others = [i for i in own if i not in found]
            changed, loaded = set(usage.changes(statements[number])), set(usage.loads(statements[number]))
            used = changed & {name for i in others for name in usage.loads(statements[i])}
            if used or (changed | loaded) & changed_by(statements, (i for i in others if i > number)):
                found.remove(number)
        return found

    def part_body(
        self, statements: Sequence[Statement], own: Sequence[int], needed: set[int], sorting: _Sorting
    ) -> tuple[list[Statement], list[Statement], list[Statement]]:
        """The statements of one loss function, and those that can only run after the step: first the ones that read
        nothing of this loss. What prepares the region is noted."""
        body: list[Statement] = []
        early: list[Statement] = []
        after: list[Statement] = []
        needed = self.with_bystanders(statements, own, needed, sorting)
        for number in own:
            statement = statements[number]
            if number in needed and self.changes_leaf(statement):
                if not sorting.movable(statement):
                    sorting.problem = f"`{first_line(statement)}` changes a tensor that gradients are taken of"
                sorting.before.append(statement)
                continue
            if number in needed:
                inside = number in sorting.traced | sorting.weighed
                inside = inside or self.starts_sum(statements[: own[-1] + 1], number)
                inside = inside or self.masks_inside(statements, [i for i in own if i in needed], number, sorting)
                if not inside and sorting.movable(statement):
                    sorting.before.append(statement)
                    continue
                if suites.leaves_loop(statement):
                    sorting.problem = f"`{first_line(statement)}` leaves the loop, and the loss needs it"
                earlier = [statements[i] for i in own if i < number]
                taken, statement = self.with_numbers_before(statement, earlier, sorting)
                sorting.before += taken
                if has_host_effects(without_numbers_asked(statement), usage.stores(body)):
                    sorting.problem = "the loss takes values out of JAX, or prints, before backward()"
                    self.note_summed(statements[number])
                if set(usage.filled(statement)) - set(usage.stores(body)):
                    sorting.problem = f"`{first_line(statement)}` fills a list that is not the loss's own"
                body.append(statement)
            elif self.is_event(statement, sorting):
                if sorting.accumulates and self.zeroed(statement):
                    sorting.before.append(statement)
                continue
            elif sorting.later or number in sorting.traced or not sorting.movable(statement):
                touched = {*usage.changes(statement), *usage.loads(statement)}
                if after or not sorting.parted or touched & {name for one in body for name in usage.changes(one)}:
                    later = changed_by(statements, (i for i in needed if i in own and i > number))
                    needing = [statements[i] for i in needed if i in own and i > number]
                    if usage.changed_by_methods(statement) & set(usage.loads(needing)):
                        sorting.problem = f"`{first_line(statement)}` takes values out of JAX for what the loss reads"
                    copies, statement = self.with_values_of_now(statement, later, sorting)
                    body += copies
                    after.append(statement)
                else:
                    early.append(statement)
                if suites.leaves_loop(statement):
                    sorting.problem = f"`{first_line(statement)}` gives up the turn ahead of backward(), and the step"
                if self.uses_weights(statement):
                    sorting.problem = f"`{first_line(statement)}` uses weights that the step changes, and runs after it"
                sorting.later = True
            else:
                sorting.before.append(statement)
                continue
            sorting.kept.append(statement)
        sorting.later = True
        return body, early, after

    def note_summed(self, statement: Statement) -> None:
        """Notes the sums with a gradient that a loop adds to which takes values out of JAX."""
        if isinstance(statement, cst.For | cst.While):
            added = [one.target.value for one in every(statement, cst.AugAssign) if isinstance(one.target, cst.Name)]
            found = frozenset(name for name in added if self.flowing(statement, {name}).models)
            self.script.summed_while_acting[id(statement)] = found

    def with_bystanders(
        self, statements: Sequence[Statement], own: Sequence[int], needed: set[int], sorting: _Sorting
    ) -> set[int]:
        """What the loss needs, with what has to run among it: forward passes beside it, since the step changes weights,
        statistics and the key; and what reads or binds a name that a later statement of the loss binds again."""
        found = set(needed)
        waiting = True
        while waiting:
            waiting = False
            for number in (i for i in own if i in sorting.traced and i not in found):
                statement = statements[number]
                if isinstance(statement, cst.FunctionDef) or has_host_effects(statement):
                    continue
                touched = {*usage.changes(statement), *usage.loads(statement)}
                later = changed_by(statements, (i for i in found if i in own and i > number))
                if self.models_called(statement) or touched & later:
                    sources = needed_for(statements[own[0] : number], set(usage.loads(statement)), self.stops_gradients)
                    found |= {number, *(own[0] + i for i in sources)}
                    waiting = True
        return found

    def with_numbers_before(
        self, statement: Statement, earlier: Sequence[Statement], sorting: _Sorting
    ) -> tuple[list[Statement], Statement]:
        """Numbers that a statement of the loss takes out of arrays, `float(betas[epoch])`, its tests of numbers that
        differ from turn to turn, `step > 100`, and what it takes of lists by such, `batches[step]`, in statements
        before the step, and the statement with their names; as it is where something else in it belongs on the host.
        `earlier`: what of the loss comes before it."""
        numbers = {f"{name}_now": number for name, number in numbers_taken(statement).items()}
        taken: dict[str, Expr] = {**numbers, **tests_of_numbers(self, statement, earlier)}
        taken |= elements_taken(self, statement, earlier, taken)
        if not taken:
            return [], statement
        if (statement, "numbers") not in self.unit.unrolled:
            own = {number: self.unit.own(name) for name, number in taken.items()}
            instead: dict[cst.CSTNode, Expr] = {number: nodes.name(name) for number, name in own.items()}
            made: list[Statement] = [nodes.statement(f"{name} = {{v}}", v=number) for number, name in own.items()]
            made.append(nodes.visited(statement, Exchanging(instead, self.unit.source.positions)))
            for one in made:
                self.unit.stands_for(one, statement)
            self.unit.unrolled[statement, "numbers"] = made
        *before, left = self.unit.unrolled[statement, "numbers"]
        apart = all(sorting.movable(one) and not self.goes_through(one) for one in before)
        ready = apart and not has_host_effects(left)
        return (before, left) if ready else ([], statement)

    def with_values_of_now(
        self, statement: Statement, later: set[str], sorting: _Sorting
    ) -> tuple[list[Statement], Statement]:
        """A statement that runs after the step, and copies in the loss function of what it reads before that is bound
        again: `running += loss.item()` before `loss = loss / 4`."""
        if set(usage.changes(statement)) & later:
            sorting.problem = f"`{first_line(statement)}` runs after the step, and binds what the loss binds again"
        names = tuple(sorted(set(usage.loads(statement)) & later))
        if not names:
            return [], statement
        key = (statement, names)
        if key not in self.unit.unrolled:
            kept = {name: nodes.name(self.unit.own(f"first_{name}")) for name in names}
            copies: list[Statement] = [nodes.statement(f"{kept[name].value} = {name}") for name in names]
            made = [*copies, nodes.substituted(statement, kept)]
            for one in made:
                self.unit.stands_for(one, statement)
            self.unit.unrolled[key] = made
        *copies, made = self.unit.unrolled[key]
        return copies, made

    def is_event(self, statement: Statement, sorting: _Sorting) -> bool:
        """Whether a statement steps, clears or clips gradients; clips are noted."""
        clip = self.clip(statement)
        if clip is not None and clip not in sorting.clips and sorting.parted:
            sorting.clips.append(clip)
        return clip is not None or self.calls_on(statement, "step", Optimizer) or bool(self.zeroed(statement))

    def refuse_early_clips(self, statements: Sequence[Statement], reached: set[Place], sorting: _Sorting) -> None:
        """Declines clips of gradients that a backward pass adds to afterwards; those of cleared ones do nothing."""
        for statement in statements:
            clip = self.clip(statement)
            if clip is None:
                continue
            clipped = self.weights_taken(clip.call.args[0].value) if clip.call.args else set()
            nothing = not sorting.parted and clip.bound == "_" and clipped <= sorting.cleared
            if not nothing and (not sorting.parted or clipped & reached):
                sorting.problem = f"`{first_line(statement)}` clips gradients that backward() adds to afterwards"

    def traced(self, statements: Sequence[Statement]) -> set[int]:
        """The statements that work on what a model returned, or on tensors that gradients are taken of."""
        names: set[str] = set()
        found: set[int] = set()
        for number, statement in enumerate(statements):
            loads = set(usage.loads(statement))
            if not found and self.only_copies_weights(statement):
                continue
            if names & loads or self.goes_through(statement):
                found.add(number)
                if not has_host_effects(statement):
                    names |= set(usage.changes(statement))
            else:
                names -= set(usage.stores(statement))
        return found

    def weighed(self, statements: Sequence[Statement], carried: Iterable[str] = ()) -> set[int]:
        """The statements that gradients of weights flow through, be it past every model. `carried`: the names that they
        flow through from before."""
        names = set(carried)
        found: set[int] = set()
        for number, statement in enumerate(statements):
            dependency = self.dependency(statement)
            if dependency.models or dependency.loads & names:
                found.add(number)
                names |= dependency.stores
            else:
                names -= set(usage.stores(statement))
        return found

    def masks_inside(
        self, statements: Sequence[Statement], needed: Sequence[int], number: int, sorting: _Sorting
    ) -> bool:
        """Whether a statement makes a mask that jit must know, and only what the loss function does reads it."""
        if not self.makes_static_mask(statements[number]):
            return False
        made = set(usage.stores(statements[number]))
        readers = [i for i in needed if i > number and made & set(usage.loads(statements[i]))]
        traced = sorting.traced | sorting.weighed
        return all(i in traced or self.masks_inside(statements, needed, i, sorting) for i in readers)

    def starts_sum(self, statements: Sequence[Statement], number: int) -> bool:
        """Whether a statement is `loss = 0`, of a name that others then add to, or `losses = []`: a loss function
        starts with it."""
        statement, later = statements[number], statements[number + 1 :]
        if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Assign):
            return False
        small = statement.body[0]
        kinds = [self.kind_of_name(name) for name in usage.loads(small.value) if name not in ("True", "False")]
        constant = all(isinstance(kind, TorchName | Device) for kind in kinds)
        summed = constant and bool(set(usage.stores(statement)) & set(usage.stores(later)))
        summed = summed and self.worked_on(usage.stores(statement), statements, number)
        return summed or bool(self.lists_started(statements, number))

    def lists_started(self, statements: Sequence[Statement], number: int) -> list[str]:
        """The name in `losses = []`, of a list that is then filled with what models return, by nothing that must stay
        outside of a jitted function; none for other statements."""
        small = suites.alone(statements[number])
        if not isinstance(small, cst.Assign) or nodes.code(small.value) != "[]":
            return []
        lists = usage.stores(small)
        later = [one for one in statements[number + 1 :] if set(lists) & usage.changed_by_methods(one)]
        filling = [one for one in later if set(lists) & changed_for_loss(one, self.stops_gradients)]
        if not filling or any(has_host_effects(one, lists) for one in later):
            return []
        return lists if self.worked_on(lists, statements, number) else []

    def worked_on(self, names: Sequence[str], statements: Sequence[Statement], after: int) -> bool:
        """Whether what works on outputs or weights of a model binds some names or fills them later on: what it only
        reads is ready before a loss."""
        working = [statements[i] for i in sorted(self.traced(statements) | self.weighed(statements)) if i > after]
        methods = [call.func for one in working for call in usage.calls(one) if isinstance(call.func, cst.Attribute)]
        return bool(set(names) & {*usage.stores(working), *(nodes.dotted(method.value) for method in methods)})

    def mark_accumulated(self, reached: set[Place]) -> None:
        """Notes the models whose gradients wait for a step elsewhere."""
        optimized = self.trained_roots()
        waiting = reached & (optimized | self.script.inspected) if optimized or self.script.inspected else reached
        self.script.accumulated |= waiting
        self.script.summed |= waiting
        held = {self.root(m) for kind in self.env.kinds.values() if isinstance(kind, Optimizer) for m in kind.models}
        self.script.backward_first |= {root for root in waiting & optimized - held if root.scope == self.scope}

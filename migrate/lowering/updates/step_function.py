"""An update region becomes a pure, jitted step function, and a statement that calls it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    UNKNOWN,
    Kind,
    Number,
    Optimizer,
    Tensor,
)
from migrate.known.states import FROZEN, GRADS, OPT_STATE, State
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.updates.clipping import Clipping
from migrate.lowering.updates.gradients import Gradients
from migrate.lowering.updates.loss_function import TracedLoss
from migrate.lowering.updates.micro_scan import gathered, scanned, with_elements
from migrate.lowering.updates.missing_gradients import MissingGradients
from migrate.lowering.updates.region import Clip, ClipCall, Region, Tracing, method_call_of
from migrate.lowering.updates.step_inputs import Step, StepInputs
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


@dataclass(frozen=True)
class Called:
    """The call of a step function, and by part of the region the statements that take what is read from its metrics."""

    call: list[Statement]
    taken: list[list[Statement]]


class StepFunctions(StepInputs, Clipping, MissingGradients):
    """Assembling step functions."""

    def lower_region(self, region: Region) -> list[Statement]:
        """The statements that stand for an update region; raises Unsupported."""
        if region.problem:
            raise Unsupported("MIG401", region.problem)
        made: list[Statement] = []
        for statement in region.before:
            made += self.guarded(statement)
        self.prepared = region.before
        losses = self.traced_losses(region)
        made += self.drawn_before(region, [draw for traced in losses for draw in traced.tracing.draws])
        kinds = [self.kind_of(optimizer) for optimizer in region.optimizers]
        optimizers = [kind for kind in kinds if isinstance(kind, Optimizer)]
        called = self.assembled(region, losses, optimizers)
        refuse_changed_between(region, losses)
        made += called.call
        for number, (traced, taken) in enumerate(zip(losses, called.taken, strict=True)):
            self.bind_results(traced)
            made += taken
            later = _later(losses, number)
            after = traced.part.after
            for position, statement in enumerate(after):
                late = _clears_late(statement, region, traced.part.backward)
                if late is not None:
                    self.unit.report(late, statement)
                    made.append(suites.refusal(late.code, late.message, [statement]))
                    continue
                with self.then([*after[position + 1 :], *later]):
                    made += self.guarded(statement)
        return made

    def bind_results(self, traced: TracedLoss) -> None:
        """What the names that a loss function binds are for the host statements after it."""
        for name in traced.names:
            self.env.kinds[name] = traced.kinds.get(name, UNKNOWN)
            self.env.last.pop(name, None)
            self.env.definitions.pop(name, None)
        if isinstance(traced.part.loss, cst.Name) and traced.variable:
            self.env.kinds[traced.variable] = Tensor("float", 0)

    def assembled(self, region: Region, losses: Sequence[TracedLoss], optimizers: Sequence[Optimizer]) -> Called:
        """The step function among the helpers, the statement that calls it, and those for each metric that is read."""
        tracing = _joined([traced.tracing for traced in losses])
        stepped = {self.root(place) for kind in optimizers for place in kind.models}
        gradients = Gradients(self, losses, stepped, self.only_trained)
        clips = [(one, *self.clipped_in_step(one, tracing)) for one in region.clips]
        lifted: dict[str, tuple[Expr, Kind]] = {}
        body: list[Statement] = []
        if tracing.keys > 1:
            body.append(nodes.statement(f"{self.unit.own('keys')} = jax.random.split({self.unit.key}, {tracing.keys})"))
        metrics: list[tuple[str, Expr]] = []
        taken: list[dict[str, str]] = []
        values: list[str] = []
        for number, traced in enumerate(losses):
            made, loss, found = self.lifted(traced.body, traced.loss, lifted)
            traced = replace(traced, body=made, loss=loss)
            lifted |= found | {name: (cut.node, cut.kind) for name, cut in traced.tracing.cut.items()}
            loss_name = traced.variable
            extra = [name for name in self.live_names(losses, number) if name != loss_name]
            value = self.value_name(traced, extra) if len(losses) == 1 else loss_name or f"loss_{number + 1}"
            values.append(value)
            body += self.loss_and_gradient(traced, value, extra, gradients.target(traced), number == 0)
            body += gradients.added(traced)
            reads, keys = self.host_names(losses, number), {}
            for name in [loss_name, *extra]:
                if name not in reads:
                    continue
                if name == loss_name and len(losses) == 1:
                    keys[name] = "loss"
                else:  # "loss" is their sum
                    keys[name] = self.metric_name(name, name, {"loss": nodes.name("loss"), **dict(metrics)})
                    metrics.append((keys[name], nodes.name(value if name == loss_name else name)))
            taken.append(keys)
            if number + 1 < len(losses):
                rebound = {n for later in losses[number + 1 :] for n in later.names}
                body += self.kept_metrics(metrics, rebound)
        metrics.insert(0, ("loss", nodes.expression(" + ".join(values))))
        if self.gathering is not None:
            body = [*gradients.started(), *scanned(body, *gradients.carried(losses[0].stats), nodes.dict_of(metrics))]
            metrics.clear()
        for one, clip, test in clips:
            bound = one.bound
            limits: list[Expr] = []
            for argument in clip.arguments:
                _, limit, found = self.lifted([], argument, lifted)
                limits.append(limit)
                lifted |= found
            clipped = gradients.clipped(bound, replace(clip, arguments=limits))
            if test is not None:
                _, test, found = self.lifted([], test, lifted)
                lifted |= found
                clipped = [cst.If(test, suites.block(clipped))]
            body += clipped
            if bound != "_" and self.live_after(bound, losses):
                metrics.append((bound, nodes.name(bound)))
                taken[-1][bound] = bound
        for state in gradients.stepped:
            later = self.left_for_later(self.root(state.place))
            if later or self.root(state.place) in self.script.inspected:  # the script reads them after the step
                key = self.metric_name(gradients.names[state], gradients.names[state], dict(metrics))
                metrics.append((key, nodes.name(gradients.names[state])))
                kept = State(GRADS, state.place)
                taken[-1][nodes.code(self.write(kept)) if later else self.state_name(kept)] = key
        states = [*tracing.states, *(State(OPT_STATE, kind.place) for kind in optimizers), *gradients.waiting]
        trained = [*(place for kind in optimizers for place in kind.models), *(one.place for one in gradients.waiting)]
        states += self.frozen_states(trained)
        states = list({self.state_name(state): state for state in states}.values())  # a loss may read the rate
        outputs = gradients.outputs(optimizers, [state for traced in losses for state in traced.stats])
        for kind, step in zip(optimizers, region.steps, strict=True):
            body += gradients.update(kind, step, self.partly_read(region, losses, kind))
        told: Expr = nodes.dict_of(metrics)
        if self.gathering is not None:
            told = nodes.expression("metrics | {told}", told=told) if metrics else nodes.name("metrics")
        results = [*(gradients.result(state) for state in outputs), told]
        body.append(nodes.statement("return {results}", results=nodes.tuple_of(results, parentheses=False)))
        names = [self.state_name(state) for state in outputs]
        wanted = self.step_name(optimizers) if optimizers else "forward_backward"
        # what a tensor of the user's own holds may have another name, too: it is not given away
        donated = [self.state_name(state) for state in outputs if self.root(state.place) not in self.script.leaves]
        return self.step_call(
            Step(
                wanted,
                body,
                states,
                names,
                donated,
                lifted,
                tracing.keys,
                frozenset(tracing.constants),
                tracing.variables,
                tracing.bare,
                losses[-1].tracing.drawn,
            ),
            taken,
        )

    def clipped_in_step(self, clip: ClipCall, tracing: Tracing) -> tuple[Clip, Expr | None]:
        """What a statement of a step that clips means, and the test for it, of which jit must know the numbers."""
        inside = self.region_scope(tracing)
        if clip.test is not None:
            need_value(inside, clip.test)
        return inside.clipping(clip.call), None if clip.test is None else inside.node(clip.test)

    def value_name(self, traced: TracedLoss, extra: Sequence[str]) -> str:
        """The name of a step's only loss: `loss`, unless the loss function calls, reads or gives something else of
        that name."""
        if "loss" in extra and traced.variable:
            return traced.variable
        outside = set(usage.loads(traced.body)) - set(usage.stores(traced.body))
        return self.unit.own("loss_value") if "loss" in {*outside, *extra} else "loss"

    def partly_read(self, region: Region, losses: Sequence[TracedLoss], kind: Optimizer) -> TracedLoss | None:
        """The loss of a step that reads other parameters from step to step, as a number tells that the host draws."""
        if not any(isinstance(draw.kind, Number) for traced in losses for draw in traced.tracing.draws):
            return None
        if any("set_to_none" in nodes.code(statement) for statement in region.statements):
            return None  # then all have a gradient, of zeros
        if len(losses) > 1 or len(losses[0].trained) > 1:
            raise Unsupported("MIG401", "what is drawn steers which parameters several losses read")
        if self.root(kind.place) in self.script.counting:
            raise Unsupported(
                "MIG401", "what is drawn steers which parameters are read, and torch counts the steps of each apart"
            )
        return losses[0]

    def kept_metrics(self, metrics: list[tuple[str, Expr]], rebound: set[str]) -> list[Statement]:
        """Gives what later loss functions of the same step bind again a name of its own."""
        made: list[Statement] = []
        for position, (key, node) in enumerate(metrics):
            if isinstance(node, cst.Name) and node.value in rebound:
                kept = f"first_{node.value}"
                while kept in self.unit.taken or any(kept == nodes.code(other) for _, other in metrics):
                    kept += "_"
                made.append(nodes.statement(f"{kept} = {node.value}"))
                metrics[position] = (key, nodes.name(kept))
        return made

    def metric_name(self, name: str, wanted: str, used: dict[str, Expr]) -> str:
        """The key of a metric, which differs from those that earlier parts of the step have given."""
        number, key = 2, wanted
        while key in used:
            key, number = f"{name}_{number}", number + 1
        return key

    def host_names(self, losses: Sequence[TracedLoss], number: int) -> set[str]:
        """The names bound in a loss function that statements outside the step read."""
        traced = losses[number]
        with self.then([*traced.part.after, *_later(losses, number)]):
            return {name for name in traced.names if name != "_" and self.live(name)}

    def live_after(self, name: str, losses: Sequence[TracedLoss]) -> bool:
        """Whether a name bound at the end of the step is read by what follows it."""
        with self.then(losses[-1].part.after):
            return self.live(name)

    def step_name(self, optimizers: Sequence[Optimizer]) -> str:
        """`train_step`; where a script has several, with what tells its optimizers apart: `train_step_d`."""
        names = {place.name for place in self.script.optimizers if place not in self.script.parameters_of}
        if len({self.root(kind.place).name for kind in optimizers} | names) <= len(optimizers):
            return "train_step"
        text = optimizers[0].place.short
        left = re.sub(r"(?i)(optimizers?|optim|opt)", "", text).strip("_").lower()
        if not left:
            left = "_".join(self.root(place).short.lower() for place in optimizers[0].models)
        return f"train_step_{left}"

    def step_call(self, step: Step, taken: Sequence[dict[str, str]]) -> Called:
        """The call of a step function, which becomes a helper of the output. `taken`, by part: variable -> the metric
        that it takes."""
        statics, inputs = self.step_arguments(step)
        names = [self.state_name(found) for found in step.states]
        if step.keys:
            inputs[self.unit.key] = self.key_kept(step) or self.fresh_key()
        gathering = self.gathering
        elements = self.taken_by_turn(gathering, statics, inputs) if gathering is not None else {}
        parameters = [*statics, *names, *inputs]
        frozen = [self.state_name(found) for found in step.states if found.what == FROZEN]
        decorator = jit_decorator([*statics, *frozen], step.donated)

        def make(name: str) -> list[Statement]:
            return [suites.function(name, parameters, body, decorator)]

        body = with_elements(step.body, list(elements)) if elements else step.body
        text = f"{decorator}({', '.join(parameters)})" + cst.Module(body).code
        name = self.unit.helper(step.wanted, make, text)
        arguments: list[Expr] = [*statics.values(), *(self.read(found) for found in step.states), *inputs.values()]
        written: dict[str, Expr] = {}
        for found in step.states:
            if self.state_name(found) in step.outputs:
                written[self.state_name(found)] = self.write(found)
                self.note_training(found)
        metrics = "metrics" if "metrics" not in self.unit.taken else "step_metrics"
        results = [*(written.get(output, nodes.name(output)) for output in step.outputs), nodes.name(metrics)]
        targets = nodes.tuple_of(results, parentheses=False)
        made: list[Statement] = [
            nodes.statement("{targets} = {call}", targets=targets, call=nodes.call(name, *arguments))
        ]
        reads = [
            [nodes.statement(f'{variable} = {metrics}["{metric}"]') for variable, metric in read.items()]
            for read in taken
        ]
        before, self.before = self.before, []
        if gathering is not None:
            gathering.call, gathering.taken = made[0], taken[0]
            return Called([*before, gathered(list(elements.values()))], [[] for _ in taken])
        return Called([*before, *made], [list(statements) for statements in reads])

    def key_kept(self, step: Step) -> Expr | None:
        """A key under a name of its own, where a later step draws once more what this one does; else None."""
        again = {one: numbers for one, numbers in step.drawn.items() if id(one) in self.script.redrawn and numbers}
        if not again or self.gathering is not None:
            return None
        wanted = f"{next(iter(usage.stores(list(again))), 'step')}_key"
        others = {kept for one, (kept, _, _) in self.script.step_keys.items() if one not in map(id, again)}
        name = usage.unused_name(wanted, {*self.unit.taken, *others})
        made = self.fresh_key()
        self.before = [nodes.substituted(one, {nodes.code(made): nodes.name(name)}) for one in self.before]
        self.env.kinds[name] = Tensor()
        self.script.step_keys |= {id(one): (name, step.keys, numbers) for one, numbers in again.items()}
        return nodes.name(name)


def _joined(tracings: Sequence[Tracing]) -> Tracing:
    """What several loss functions of one step need together."""
    made = Tracing(key_count=sum(one.keys for one in tracings), keys=sum(one.keys for one in tracings))
    for one in tracings:
        for state in one.states:
            made.read(state)
        made.cut |= one.cut
        made.constants |= one.constants
        made.variables |= one.variables
        made.bare += [place for place in one.bare if place not in made.bare]
    return made


def refuse_changed_between(region: Region, losses: Sequence[TracedLoss]) -> None:
    """Declines an object that is used between where the loss asks it and where the step is called, which is given the
    answer."""
    place = {id(statement): number for number, statement in enumerate(region.statements)}
    after = [one for traced in losses for one in traced.part.after]
    for traced in losses:
        for asked in traced.tracing.cut.values():
            path = nodes.dotted(asked.node.func) if isinstance(asked.node, cst.Call) else None
            owner, code = (path or "").rpartition(".")[0] or path, nodes.code(asked.node)
            asking = [place[id(one)] for one in traced.part.body if id(one) in place and code in nodes.code(one)]
            if owner is None or not asking:
                continue
            early = [place.get(id(one), -1) > min(asking) for one in region.before if _uses(one, owner)]
            late = [place.get(id(one), len(place)) < max(asking) for one in after if _uses(one, owner)]
            if any(early) or any(late):
                raise Unsupported("MIG401", f"{owner} is used among what the loss asks of it, before its step")


def _uses(statement: Statement, path: str) -> bool:
    """Whether a statement calls something of an object, or gives it away."""
    return any(path in usage.paths(call) for call in usage.calls(statement))


def _later(losses: Sequence[TracedLoss], number: int) -> list[cst.CSTNode]:
    """What runs on the host after a part of a region: what later loss functions bind is bound there."""
    made: list[cst.CSTNode] = []
    for later in losses[number + 1 :]:
        made += [nodes.statement(f"{name} = None") for name in later.names]
        made += later.part.after
    return made


def jit_decorator(statics: Sequence[str], donated: Sequence[str]) -> str:
    """`@jax.jit(...)` with the names of its static and its donated arguments."""

    def shown(names: Sequence[str]) -> str:
        return f'"{names[0]}"' if len(names) == 1 else "(" + ", ".join(f'"{name}"' for name in names) + ")"

    keywords = [f"static_argnames={shown(statics)}"] if statics else []
    keywords += [f"donate_argnames={shown(donated)}"] if donated else []
    return f"@jax.jit({', '.join(keywords)})" if keywords else "@jax.jit"


def _clears_late(statement: Statement, region: Region, backward: Statement) -> Unsupported | None:
    """Why a statement after a step cannot clear gradients: it did so before `backward()`, by an optimizer that was made
    after the forward pass. None of other statements."""
    func = method_call_of(statement, "zero_grad")
    name = (nodes.dotted(func.value) or "") if func is not None else ""
    lines = region.statements
    before = lines[: lines.index(backward)] if backward in lines else []
    if not name or statement not in before or name not in usage.stores(before):
        return None
    told = f"{name} is made after the forward pass, and clears gradients before backward()"
    return Unsupported("MIG401", f"{told}: make it first")

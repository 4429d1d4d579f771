"""An update region becomes a pure, jitted step function, and a statement that calls it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    Autocast,
    DType,
    Function,
    Host,
    Instance,
    Kind,
    Loss,
    Model,
    Number,
    Optimizer,
    Plain,
    Tensor,
)
from migrate.lowering.clipping import Clipping
from migrate.lowering.gradients import Gradients
from migrate.lowering.loss_function import LossFunctions, TracedLoss, reads_first
from migrate.lowering.region import Region, Tracing
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.states import GRADS, OPT_STATE, PARAMS, State
from migrate.walking import every

_STATIC = (Loss, Function, Instance, Plain, Model, Optimizer, Autocast, DType)
_MADE_BY_STEP = {"updates", "keys", "mutated"}
_SHAPE_FUNCTIONS = ("reshape", "range", "arange", "zeros", "ones", "split", "broadcast_to", "tile")


@dataclass(frozen=True)
class Step:
    """A step function before its parameters are known. All names are those inside the function."""

    wanted: str  # its name, unless that is taken
    body: list[Statement]
    states: list[State]  # passed in
    outputs: list[str]  # of these states, returned before the metrics
    donated: list[str]
    lifted: dict[str, tuple[Expr, Kind]]  # name -> the attribute that it stands for
    draws: bool
    constants: frozenset[str] = frozenset()  # names that jit must know


@dataclass(frozen=True)
class Called:
    """The call of a step function, and by part of the region the statements that take what is read from its metrics."""

    call: list[Statement]
    taken: list[list[Statement]]


class StepFunctions(LossFunctions, Clipping):
    """Assembling step functions."""

    def lower_region(self, region: Region) -> list[Statement]:
        """The statements that stand for an update region; raises Unsupported."""
        if region.problem:
            raise Unsupported("MIG401", region.problem)
        made: list[Statement] = []
        for statement in region.before:
            made += self.guarded(statement)
        losses = self.traced_losses(region)
        made += self.drawn_before(region, [draw for traced in losses for draw in traced.tracing.draws])
        kinds = [self.kind_of(optimizer) for optimizer in region.optimizers]
        optimizers = [kind for kind in kinds if isinstance(kind, Optimizer)]
        called = self.assembled(region, losses, optimizers)
        made += called.call
        for number, (traced, taken) in enumerate(zip(losses, called.taken, strict=True)):
            self.bind_results(traced)
            made += taken
            later = _later(losses, number)
            after = traced.part.after
            for position, statement in enumerate(after):
                with self.then([*after[position + 1 :], *later]):
                    made += self.guarded(statement)
        return made

    def bind_results(self, traced: TracedLoss) -> None:
        """What the names that a loss function binds are for the host statements after it."""
        for name in traced.names:
            self.env.kinds[name] = traced.kinds.get(name, UNKNOWN)
            self.env.last.pop(name, None)
            self.env.definitions.pop(name, None)
        if isinstance(traced.part.loss, cst.Name):
            self.env.kinds[traced.part.loss.value] = Tensor("float", 0)

    def assembled(self, region: Region, losses: Sequence[TracedLoss], optimizers: Sequence[Optimizer]) -> Called:
        """The step function among the helpers, the statement that calls it, and those for each metric that is read."""
        tracing = _joined([traced.tracing for traced in losses])
        gradients = Gradients(self, losses, {self.root(place) for kind in optimizers for place in kind.models})
        clips = [(bound, self.region_scope(tracing).clipping(call)) for bound, call in region.clips]
        lifted: dict[str, tuple[Expr, Kind]] = {}
        body: list[Statement] = []
        if tracing.keys > 1:
            body.append(nodes.statement(f"keys = jax.random.split({self.unit.key}, {tracing.keys})"))
        metrics: list[tuple[str, Expr]] = []
        taken: list[dict[str, str]] = []
        for number, traced in enumerate(losses):
            made, loss, found = self.lifted(traced.body, traced.loss)
            traced = replace(traced, body=made, loss=loss)
            lifted |= found | {name: (cut.node, cut.kind) for name, cut in traced.tracing.cut.items()}
            loss_name = nodes.dotted(traced.part.loss) or ""
            value = "loss" if len(losses) == 1 else loss_name or f"loss_{number + 1}"
            extra = [name for name in self.live_names(losses, number) if name != loss_name]
            body += self.loss_and_gradient(traced, value, extra, gradients.target(traced), number == 0)
            body += gradients.added(traced)
            reads, keys = self.host_names(losses, number), {}
            for name in [loss_name, *extra]:
                if name not in reads:
                    continue
                keys[name] = self.metric_name(name, value if name == loss_name else name, dict(metrics))
                if keys[name] != "loss":
                    metrics.append((keys[name], nodes.name(value if name == loss_name else name)))
            taken.append(keys)
            if number + 1 < len(losses):
                rebound = {n for later in losses[number + 1 :] for n in later.names}
                body += self.kept_metrics(metrics, rebound)
        for bound, clip in clips:
            limits = [self.lifted([], limit)[1:] for limit in clip.arguments]
            for _, found in limits:
                both = found.keys() & lifted.keys()
                if any(nodes.code(lifted[name][0]) != nodes.code(found[name][0]) for name in both):
                    raise Unsupported("MIG302", f"{clip.snippet}: a limit called as another input of the step is")
                lifted |= found
            body.append(gradients.clipped(bound, replace(clip, arguments=[limit for limit, _ in limits])))
            if bound != "_" and self.live_after(bound, losses):
                metrics.append((bound, nodes.name(bound)))
                taken[-1][bound] = bound
        for state in gradients.stepped:
            if self.root(state.place) in self.script.inspected:  # the script reads them after the step
                key = self.metric_name(gradients.names[state], gradients.names[state], dict(metrics))
                metrics.append((key, nodes.name(gradients.names[state])))
                taken[-1][self.state_name(State(GRADS, state.place))] = key
        total = nodes.name("loss")
        if len(losses) > 1:
            values = [nodes.dotted(t.part.loss) or f"loss_{n + 1}" for n, t in enumerate(losses)]
            total = nodes.expression(" + ".join(values))
        states = [*tracing.states, *(State(OPT_STATE, kind.place) for kind in optimizers), *gradients.waiting]
        outputs = gradients.outputs(optimizers, [state for traced in losses for state in traced.stats])
        for kind, step in zip(optimizers, region.steps, strict=True):
            body += gradients.update(kind, step, self.partly_read(region, losses, kind))
        results = [*(gradients.result(state) for state in outputs), nodes.dict_of([("loss", total), *metrics])]
        body.append(nodes.statement("return {results}", results=nodes.tuple_of(results, parentheses=False)))
        names = [self.state_name(state) for state in outputs]
        wanted = self.step_name(optimizers) if optimizers else "forward_backward"
        # what a tensor of the user's own holds may have another name, too: it is not given away
        donated = [self.state_name(state) for state in outputs if self.root(state.place) not in self.script.leaves]
        return self.step_call(
            Step(wanted, body, states, names, donated, lifted, tracing.keys > 0, frozenset(tracing.constants)), taken
        )

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
        parameters = [*statics, *names, *inputs, *([self.unit.key] if step.draws else [])]
        decorator = jit_decorator(list(statics), step.donated)

        def make(name: str) -> list[Statement]:
            return [suites.function(name, parameters, step.body, decorator)]

        text = f"{decorator}({', '.join(parameters)})" + cst.Module(step.body).code
        name = self.unit.helper(step.wanted, make, text)
        arguments: list[Expr] = [*statics.values(), *(self.read(found) for found in step.states), *inputs.values()]
        if step.draws:
            arguments.append(self.fresh_key())
        written: dict[str, Expr] = {}
        for found in step.states:
            if self.state_name(found) in step.outputs:
                written[self.state_name(found)] = self.write(found)
                self.script.updated.add((self.scope, self.root(found.place)))
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
        return Called([*before, *made], [list(statements) for statements in reads])

    def step_arguments(self, step: Step) -> tuple[dict[str, Expr], dict[str, Expr]]:
        """What a step function needs beside state and key: jit's static arguments (functions, objects, numbers that
        make shapes), and its array inputs."""
        states = {self.state_name(found) for found in step.states}
        objects = [
            found.place
            for found in step.states
            if found.what in (PARAMS, OPT_STATE) and found.place not in self.script.leaves
        ]
        passed = [place for place in objects if not self.is_global(place)]
        self.script.hashed |= {self.script.places.get(self.root(place), "") for place in passed}
        statics = {place.short: nodes.expression(place.name) for place in passed}
        inputs: dict[str, Expr] = {}
        bound = set(usage.stores(step.body)) | set(usage.stores(_with_loss_in_place(step.body))) | _MADE_BY_STEP
        for name in dict.fromkeys(usage.loads(step.body)):
            if name in states or name in statics or name == self.unit.key:
                continue
            if name in step.lifted:
                node, kind = step.lifted[name]
                static = isinstance(kind, Loss | Function | Model) or name in step.constants
                (statics if static else inputs)[name] = node
            elif self.reachable(name):
                continue
            elif name not in bound:
                kind = self.kind_of_name(name)
                self.refuse_mixed(name, kind)
                static = (isinstance(kind, _STATIC) and kind != Plain("dict")) or name in step.constants
                told = _makes_shapes(step.body, name) or _decides(step.body, name)
                if static or (isinstance(kind, Number) and told):
                    statics[name] = nodes.name(name)
                elif isinstance(kind, Host) and kind.what == "batch" and self.taken_apart(step.body, name):
                    inputs[name] = nodes.call("jax.tree.map", self.taken_in(nodes.name(name)).func, nodes.name(name))
                else:
                    inputs[name] = self.as_array(Value(nodes.name(name), kind)).node
            elif reads_first(_with_loss_in_place(step.body), name):
                inputs[name] = self.as_array(Value(nodes.name(name), self.kind_of_name(name))).node
        return statics, inputs

    def refuse_mixed(self, name: str, kind: Kind) -> None:
        """Declines a dict that a loss reads unless it holds arrays or numbers alone: jit takes no other, and cannot
        hash a dict."""
        written = self.env.definitions.get(name)
        values = [element.value for element in written.elements] if isinstance(written, cst.Dict) else []
        numbers = [
            isinstance(nodes.literal(one), int | float) or isinstance(self.kind_of(one), Number) for one in values
        ]
        if kind == Plain("dict") and not (numbers and all(numbers)):
            raise Unsupported("MIG401", f"the loss reads {name}, a dict of more than arrays: jit takes no such dict")

    def taken_apart(self, body: Sequence[Statement], name: str) -> bool:
        """Whether a batch is more than one array: a step takes parts of it, or hands it on to a function."""
        module = cst.Module(list(body))
        given_to = [call for call in usage.calls(module) if any(nodes.dotted(arg.value) == name for arg in call.args)]
        return any(nodes.dotted(found.value) == name for found in every(module, cst.Subscript)) or any(
            isinstance(self.kind_of(call.func), Function) for call in given_to
        )


def _joined(tracings: Sequence[Tracing]) -> Tracing:
    """What several loss functions of one step need together."""
    made = Tracing(key_count=sum(one.keys for one in tracings), keys=sum(one.keys for one in tracings))
    for one in tracings:
        for state in one.states:
            made.read(state)
        made.cut |= one.cut
        made.constants |= one.constants
    return made


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


def _makes_shapes(body: Sequence[Statement], name: str) -> bool:
    """Whether a number is used where jit needs a constant: in a shape or a range."""
    for call in usage.calls(cst.Module(list(body))):
        if nodes.code(call.func).rpartition(".")[2] in _SHAPE_FUNCTIONS and name in usage.loads(call):
            return True
    return False


def _decides(body: Sequence[Statement], name: str) -> bool:
    """Whether a number is read by a test of Python's: jit compiles the step for each value of it."""
    return name in usage.loads(found.test for found in every(cst.Module(list(body)), (cst.If, cst.IfExp)))


def _with_loss_in_place(body: Sequence[Statement]) -> list[cst.CSTNode]:
    """The statements of a step with those of its loss function in place of its definition."""
    made: list[cst.CSTNode] = []
    for statement in body:
        made += list(statement.body.body) if isinstance(statement, cst.FunctionDef) else [statement]
    return made

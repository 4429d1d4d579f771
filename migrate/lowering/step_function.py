"""An update region becomes a pure, jitted step function, and a statement that calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import UNKNOWN, Function, Kind, Loss, Model, Number, Optimizer, Plain, Tensor
from migrate.lowering.loss_function import LossFunctions, TracedLoss, reads_first
from migrate.lowering.region import Region
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import BATCH_STATS, GRADS, OPT_STATE, PARAMS, State

_MADE_BY_STEP = {"loss", "grads", "new_grads", "updates", "keys", "mutated"}
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


class StepFunctions(LossFunctions):
    """Assembling step functions."""

    def lower_region(self, region: Region) -> list[Statement]:
        """The statements that stand for an update region; raises Unsupported."""
        if not region.supported:
            raise Unsupported(
                "MIG401", "several backward passes, arguments of backward(), or host effects inside the loss"
            )
        made: list[Statement] = []
        for statement in region.before:
            made += self.guarded(statement)
        traced = self.traced_loss(region)
        trained = self.trained(traced.tracing, region)
        optimizer = self.kind_of(region.optimizer) if region.optimizer is not None else None
        with self.then(region.after):
            made += self.assembled(region, traced, trained, optimizer if isinstance(optimizer, Optimizer) else None)
        for name in usage.stores(region.traced):
            self.env.kinds[name] = traced.kinds.get(name, UNKNOWN)
            self.env.last.pop(name, None)
            self.env.definitions.pop(name, None)
        if isinstance(region.loss, cst.Name):
            self.env.kinds[region.loss.value] = Tensor("float", 0)
        for number, statement in enumerate(region.after):
            with self.then(region.after[number + 1 :]):
                made += self.guarded(statement)
        return made

    def assembled(
        self, region: Region, traced: TracedLoss, trained: State, optimizer: Optimizer | None
    ) -> list[Statement]:
        """The step function among the helpers, the statement that calls it, and one for each metric that is read."""
        tracing = traced.tracing
        live = self.live_names(region)
        clips = [self.region_scope(tracing).node(call.args[1].value) for _, call in region.clips]
        lifted_body, (*clips, loss), lifted = self.lifted(traced.body, [*clips, traced.loss])
        lifted |= {name: (cut.node, cut.kind) for name, cut in tracing.cut.items()}
        loss_name = nodes.dotted(region.loss)
        extra = [name for name in live if name != loss_name]
        params = self.state_name(trained)
        stats = [self.state_name(found) for found in tracing.changed if found.what == BATCH_STATS]
        body: list[Statement] = []
        if tracing.keys > 1:
            body.append(nodes.statement(f"keys = jax.random.split({self.unit.key}, {tracing.keys})"))
        grads = "grads" if optimizer is not None else "new_grads"
        body += self.loss_and_gradient(lifted_body, loss, params, stats, extra, grads, region.backward)
        for (bound, _), value in zip(region.clips, clips, strict=True):
            self.unit.use_snippet("clip_grad_norm")
            body.append(nodes.statement(f"grads, {bound} = clip_grad_norm(grads, {{value}})", value=value))
            if bound != "_" and self.live(bound):
                extra.append(bound)
        metrics = nodes.dict_of([(name, nodes.name(name)) for name in ["loss", *extra]])
        if optimizer is not None:
            own = State(OPT_STATE, optimizer.place)
            opt_state = self.state_name(own)
            update = f"updates, {opt_state} = {optimizer.place.short}.update(grads, {opt_state}, {params})"
            body.append(suites.commented(nodes.statement(update), region.step))
            body.append(nodes.statement(f"{params} = optax.apply_updates({params}, updates)"))
            wanted, outputs, donated = "train_step", [params, *stats, opt_state], [params, *stats, opt_state]
            results = [*map(nodes.name, outputs), metrics]
        else:
            own = State(GRADS, trained.place)
            summed = nodes.expression("jax.tree.map(jnp.add, grads, new_grads)")
            wanted, outputs, donated = "forward_backward", [*stats, "grads"], [*stats, "grads"]
            results = [*map(nodes.name, stats), summed, metrics]
        body.append(nodes.statement("return {results}", results=nodes.tuple_of(results, parentheses=False)))
        step = Step(wanted, body, [*tracing.states, own], outputs, donated, lifted, tracing.keys > 0)
        read = {name: "loss" if name == loss_name else name for name in [loss_name, *extra] if name}
        if loss_name and loss_name not in live:
            del read[loss_name]
        return self.step_call(step, read)

    def step_call(self, step: Step, read: dict[str, str]) -> list[Statement]:
        """The call of a step function, which becomes a helper of the output. `read`: variable -> the metric that it
        takes."""
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
        for found in step.states:
            if self.state_name(found) in step.donated:
                self.write(found)
        metrics = "metrics" if "metrics" not in self.unit.taken else "step_metrics"
        by_name = {self.state_name(found): self.state_expr(found) for found in step.states}
        results = [*(by_name.get(output, nodes.name(output)) for output in step.outputs), nodes.name(metrics)]
        targets = nodes.tuple_of(results, parentheses=False)
        made = [nodes.statement("{targets} = {call}", targets=targets, call=nodes.call(name, *arguments))]
        made += [nodes.statement(f'{variable} = {metrics}["{metric}"]') for variable, metric in read.items()]
        before, self.before = self.before, []
        return [*before, *made]

    def step_arguments(self, step: Step) -> tuple[dict[str, Expr], dict[str, Expr]]:
        """What a step function needs beside state and key: jit's static arguments (functions, objects, numbers that
        make shapes), and its array inputs."""
        states = {self.state_name(found) for found in step.states}
        objects = [found.place for found in step.states if found.what in (PARAMS, OPT_STATE)]
        statics = {place.short: nodes.expression(place.name) for place in objects if not self.is_global(place)}
        inputs: dict[str, Expr] = {}
        bound = set(usage.stores(step.body)) | _MADE_BY_STEP
        for name in dict.fromkeys(usage.loads(step.body)):
            if name in states or name in statics or name == self.unit.key:
                continue
            if name in step.lifted:
                node, kind = step.lifted[name]
                (statics if isinstance(kind, Loss | Function | Model) else inputs)[name] = node
            elif self.reachable(name):
                continue
            elif name not in bound:
                kind = self.kind_of_name(name)
                static = isinstance(kind, Loss | Function | Plain | Model | Optimizer)
                if static or (isinstance(kind, Number) and _makes_shapes(step.body, name)):
                    statics[name] = nodes.name(name)
                else:
                    inputs[name] = self.as_array(Value(nodes.name(name), kind)).node
            elif reads_first(_with_loss_in_place(step.body), name):
                inputs[name] = self.as_array(Value(nodes.name(name), self.kind_of_name(name))).node
        return statics, inputs


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


def _with_loss_in_place(body: Sequence[Statement]) -> list[cst.CSTNode]:
    """The statements of a step with those of its loss function in place of its definition."""
    made: list[cst.CSTNode] = []
    for statement in body:
        made += list(statement.body.body) if isinstance(statement, cst.FunctionDef) else [statement]
    return made

"""Calls of models: forward passes, and methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts, nodes, usage
from migrate.diagnostics import Unsupported
from migrate.facts import Example, FunctionFacts
from migrate.kinds import (
    VANISHING,
    DType,
    Host,
    Kind,
    Model,
    Parameters,
    Place,
    StateDict,
    Tensor,
)
from migrate.lowering.arguments import argument_names, placed
from migrate.lowering.fields_alone import reads_fields
from migrate.lowering.host_draws import HostDraws
from migrate.lowering.precision import Precision
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.told_modes import ToldModes
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.states import BATCH_STATS, MODE, PARAMS, State
from migrate.walking import every

_SAME = ("to", "cuda", "cpu", "float", "compile", "requires_grad_", "share_memory")


class Models(ToldModes, Precision, HostDraws):
    """Forward passes and methods of models."""

    def mode(self, model: Model) -> str:
        """The mode in which the model is now, where it matters: "train", "eval", or "told" by the callers of a
        function."""
        if not self.script.trains(model.cls) or model.place is None:
            return "eval"
        told = self.read(State(MODE, model.place))
        if nodes.literal(told) is ...:
            if self.stats_of(model):
                raise Unsupported("MIG403", f"{model.place.name} keeps batch statistics in one run of this line alone")
            return "told"
        return "train" if nodes.is_literal(told, True) else "eval"

    def streams(self, model: Model, mode: str, method: bool = False) -> list[tuple[str, Expr]]:
        """The random streams that a call needs, each with a key of its own."""
        wanted = self.script.draws(model.cls)
        names = ["dropout"] if "dropout" in wanted and mode != "eval" else []
        if "sample" in wanted or (method and "method" in wanted):
            names.append("sample")
        return [(name, self.fresh_key()) for name in names]

    def record_example(self, model: Model, args: Sequence[cst.Arg]) -> None:
        """Remembers the first call of a model: it tells what an example input looks like."""
        assert model.place is not None
        trained = self.context == "region" or (self.facts is not None and self.facts.traced)
        direct = not self.through_model([arg.value for arg in args])
        forward = self.script.functions.get(f"{model.cls}.forward")
        drawn = tuple(draw.name for draw in forward.draws) if forward is not None else ()
        known = {root: self.script.examples.get(root) for root in self.roots(model.place)}
        better = [
            root
            for root, one in known.items()
            if one is None or (one.direct, one.trained) < (direct, trained) or tuple(one.drawn) != drawn
        ]
        if not better:
            return
        needed = [p for p in forward.node.params.params[1:] if p.default is None] if forward is not None else []
        arguments = _first_given(args, max(len(needed), 1) if forward is not None else len(args))
        names = [""] * len(arguments)
        if forward is not None:
            given = self.given_to(forward, args, method=True)
            arguments += [nodes.substituted(draw.node, given) for draw in forward.draws]
            names += list(drawn)
        definitions = dict(self.env.definitions)
        example = Example(self.scope, tuple(arguments), definitions, trained, direct, tuple(names))
        self.script.examples |= dict.fromkeys(better, example)

    def through_model(self, arguments: Sequence[Expr]) -> bool:
        """Whether arguments were computed by some model: an example that was not is simpler."""
        left, seen = list(arguments), set[str]()
        while left:
            node = left.pop()
            for call in usage.calls(node):
                if isinstance(self.kind_of(call.func), Model):
                    return True
            for name in set(usage.loads(node)) - seen:
                seen.add(name)
                if name in self.env.definitions:
                    left.append(self.env.definitions[name])
        return False

    def model_call(self, node: cst.Call, callee: Value) -> Value:
        """`model(x)`: in a loss function an `apply` in place; on the host a jitted forward pass, or an `apply` where
        that cannot be jitted as it stands (other arguments than arrays, random draws)."""
        kind = callee.kind
        assert isinstance(kind, Model)
        if kind.place is None:
            raise Unsupported("MIG301", f"{nodes.code(node.func)}: a model that has no name of its own")
        self.record_example(kind, node.args)
        mode = self.mode(kind)
        values = [self.array(arg.value) for arg in node.args]
        result = self.call_kind(kind, node.args, values)
        forward = self.script.functions.get(f"{kind.cls}.forward")
        if forward is not None and forward.draws:
            return Value(self.drawing_pass(node, callee, kind, mode, values, forward), result)
        inline = self.script.inline(kind.cls)
        if inline is not None and len(values) == 1:
            values = [layouts.enter(values[0], inline)]
            made = self.forward_pass(node, callee, kind, mode, values, result)
            return layouts.leave(inline, made.node, values[0])
        return self.forward_pass(node, callee, kind, mode, values, result)

    def forward_pass(
        self, node: cst.Call, callee: Value, kind: Model, mode: str, values: Sequence[Value], result: Kind
    ) -> Value:
        if self.region is not None:
            return Value(self.traced_apply(kind, mode, placed(node.args, values)), result)
        args = placed(node.args, values)
        arrays = all(isinstance(value.kind, Tensor) or nodes.is_literal(value.node, None) for value in values)
        streams = self.streams(kind, mode)
        if self.script.changes_state(kind.cls, mode):
            return Value(
                self.host_training_pass(
                    callee.node, kind, mode, args, streams, jitted=arrays and not (streams or self.under_jit)
                ),
                result,
            )
        if not arrays or streams or mode == "told" or self.under_jit:
            return Value(self.plain_apply(callee.node, kind, mode, args, streams), result)
        name, leading = self.eval_step(callee.node, kind, mode)
        return Value(cst.Call(nodes.name(name), [*nodes.arguments(leading), *args]), result)

    def drawing_pass(
        self, node: cst.Call, callee: Value, kind: Model, mode: str, values: Sequence[Value], forward: FunctionFacts
    ) -> Expr:
        """A forward pass that is given what it draws. On the host it is not jitted: it would be for each number."""
        args = nodes.extended(placed(node.args, values), self.draws_for(forward, node.args, method=True))
        if self.region is not None:
            return self.traced_apply(kind, mode, args)
        streams = self.streams(kind, mode)
        if self.script.changes_state(kind.cls, mode):
            return self.host_training_pass(callee.node, kind, mode, args, streams, jitted=False)
        return self.plain_apply(callee.node, kind, mode, args, streams)

    def traced_apply(self, kind: Model, mode: str, args: Sequence[cst.Arg]) -> Expr:
        """A forward pass in a loss function. One that changes batch statistics takes two statements before."""
        assert kind.place is not None
        made = self.plain_apply(nodes.name(kind.place.short), kind, mode, args, self.streams(kind, mode))
        if not self.script.changes_state(kind.cls, mode):
            return made
        return self.mutating_apply(kind.place, made)

    def mutating_apply(self, place: Place, made: cst.Call) -> Expr:
        """A forward pass that changes batch statistics, in statements of its own; the name that its output has."""
        mutable = {"mutable": nodes.expression('["batch_stats"]')}
        made = made.with_changes(args=nodes.extended(made.args, mutable))
        output = self.output_name()
        if self.region is not None and self.region.replaying:
            self.before.append(nodes.statement("{output}, _ = {made}", output=output, made=made))
            return output
        stats = self.write(State(BATCH_STATS, place))
        self.before.append(nodes.statement("{output}, mutated = {made}", output=output, made=made))
        self.before.append(nodes.statement('{stats} = mutated["batch_stats"]', stats=stats))
        return output

    def output_name(self) -> cst.Name:
        """A name for an output: another one for each forward pass of a statement, `f(net(x), net(y))`."""
        wanted = "output" if "output" not in self.unit.taken else "model_output"
        return nodes.name(usage.unused_name(wanted, {*self.unit.taken, *usage.stores(self.before)}))

    def host_training_pass(
        self,
        node: Expr,
        kind: Model,
        mode: str,
        args: Sequence[cst.Arg],
        streams: Sequence[tuple[str, Expr]],
        jitted: bool,
    ) -> Expr:
        """A forward pass outside a training step that changes batch statistics all the same."""
        assert kind.place is not None
        if self.nested:
            raise Unsupported("MIG401", "batch statistics that change inside a comprehension or a lambda")
        if not jitted:
            return self.mutating_apply(kind.place, self.plain_apply(node, kind, mode, args, streams))
        name, leading = self.training_pass(node, kind, mode)
        output = self.output_name()
        call = cst.Call(nodes.name(name), [*nodes.arguments(leading), *args])
        stats = self.write(State(BATCH_STATS, kind.place))
        self.before.append(nodes.statement("{output}, {stats} = {call}", output=output, stats=stats, call=call))
        return output

    def training_pass(self, node: Expr, kind: Model, mode: str) -> tuple[str, list[Expr]]:
        """The jitted forward pass that also returns the batch statistics: its name, and what comes before its
        inputs."""
        assert kind.place is not None
        shared = self.shares(kind)
        model = kind.place.name if shared else "model"
        applied = nodes.code(_in_mode(nodes.name(model), mode))
        several = shared and len({found.name for found in self.script.places}) > 1
        decorator = "@jax.jit" if shared else '@jax.jit(static_argnames="model")'
        leading = ", ".join([*([] if shared else ["model"]), "params", "batch_stats"])
        body = (
            f'    variables = {{"params": params, "batch_stats": batch_stats}}\n'
            f'    output, mutated = {applied}.apply(variables, *inputs, mutable=["batch_stats"])\n'
            f'    return output, mutated["batch_stats"]\n'
        )

        def make(name: str) -> list[Statement]:
            return list(cst.parse_module(f"{decorator}\ndef {name}({leading}, *inputs):\n{body}").body)

        name = self.unit.helper("forward" + (f"_{model}" if several else ""), make, f"{decorator} {leading} {body}")
        states = [State(PARAMS, kind.place), State(BATCH_STATS, kind.place)]
        return name, [*([] if shared else [node]), *(self.read(one) for one in states)]

    def call_kind(self, kind: Model, args: Sequence[cst.Arg], values: Sequence[Value]) -> Kind:
        """What the model returns; what it is called with is remembered."""
        facts = self.script.functions.get(f"{kind.cls}.forward")
        if facts is None:
            return Tensor("float")
        self.pass_kinds(facts, args, values)
        return facts.result

    def plain_apply(
        self,
        node: Expr,
        kind: Model,
        mode: str,
        args: Sequence[cst.Arg],
        streams: Sequence[tuple[str, Expr]],
        method: str = "",
    ) -> cst.Call:
        """`model.apply(variables, x, ...)`."""
        extra: dict[str, Expr] = {"method": nodes.expression(f'"{method}"')} if method else {}
        if streams:
            extra["rngs"] = nodes.dict_of(streams)
        function = cst.Attribute(self.applied(node, kind, mode), cst.Name("apply"))
        return cst.Call(function, nodes.extended([cst.Arg(self.variables(kind)), *args], extra))

    def applied(self, node: Expr, kind: Model, mode: str) -> Expr:
        """The model as it is applied: a copy in its mode, and in the precision in force."""
        assert kind.place is not None
        changes = {} if mode == "eval" else {"training": self.read(State(MODE, kind.place))}
        if self.precision is not None:
            self.lowered_class(kind.cls)
            changes["dtype"] = self.precision
            if self.region is not None:
                self.region.constants |= self.constants_of_precision()
        return nodes.call(cst.Attribute(node, cst.Name("clone")), **changes) if changes else node

    def shares(self, model: Model) -> bool:
        """Whether functions reach a model by its name; else it is a static argument of jit, which hashes it."""
        assert model.place is not None
        if self.is_global(model.place):
            return True
        self.script.hashed.add(model.cls)
        return False

    def eval_step(self, node: Expr, kind: Model, mode: str) -> tuple[str, list[Expr]]:
        """The jitted forward pass of a model: its name, and the arguments that come before the inputs."""
        assert kind.place is not None
        stats = self.stats_of(kind)
        state = [State(PARAMS, kind.place)] + ([State(BATCH_STATS, kind.place)] if stats else [])
        params = ["params", *(["batch_stats"] if stats else [])]
        shared = self.precision is None and self.shares(kind)
        if self.precision is not None:
            node = self.applied(node, kind, "eval")
        model = kind.place.name if shared else "model"
        applied = nodes.code(_in_mode(nodes.name(model), mode))
        variables = "{" + ", ".join(f'"{name}": {name}' for name in params) + "}"
        several = shared and len({found.name for found in self.script.places}) > 1
        wanted = ("eval_step" if mode == "eval" else "forward") + (f"_{model}" if several else "")
        decorator = "@jax.jit" if shared else '@jax.jit(static_argnames="model")'
        leading = ", ".join([*([] if shared else ["model"]), *params])

        def make(name: str) -> list[Statement]:
            text = f"{decorator}\ndef {name}({leading}, *inputs):\n    return {applied}.apply({variables}, *inputs)\n"
            return list(cst.parse_module(text).body)

        name = self.unit.helper(wanted, make, f"{decorator} {leading} {applied} {variables}")
        return name, [*([] if shared else [node]), *(self.read(one) for one in state)]

    def model_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of a model."""
        kind, method = base.kind, func.attr.value
        assert isinstance(kind, Model)
        place = kind.place
        if method in ("train", "eval"):
            told = node.args[0].value if node.args else nodes.name("True")
            if nodes.literal(told) is ... and place is not None:
                self.set_mode(place, "mixed")
                self.mode_by(place, told)
                return base
            if nodes.literal(told) is ...:
                raise Unsupported("MIG403", f"{nodes.code(node)} of a model that has no name of its own")
            on = method == "train" and not nodes.is_literal(told, False)
            if place is None:
                return replace(base, kind=replace(kind, mode="train" if on else "eval"))
            self.set_mode(place, "train" if on else "eval")
            return base
        if method in _SAME or method == "double":
            kinds = [self.expr(arg.value).kind for arg in node.args]
            if method == "double" or (method == "to" and any(isinstance(kind, DType) for kind in kinds)):
                self.cast_model(node, kind.place)
            return base
        wrapped = method == "module" and method not in self.script.classes[kind.cls].attributes  # DDP(net).module(x)
        if method in ("forward", "__call__") or wrapped:
            return self.model_call(node, base)
        if f"{kind.cls}.{method}" in self.script.functions:
            return self.own_model_method(node, base, kind, method)
        if place is None:
            raise Unsupported("MIG301", f"nn.Module.{method} of a model that has no name of its own")
        if method == "parameters":
            leaves = nodes.call("jax.tree.leaves", self.read(State(PARAMS, place)))
            return Value(leaves, Parameters((place,)))
        if method == "named_parameters":
            return Value(named_leaves(self.read(State(PARAMS, place))), Parameters((place,), True))
        if method == "state_dict":
            return Value(self.saved(kind), StateDict(place))
        raise Unsupported("MIG301", f"nn.Module.{method}")

    def cast_model(self, node: cst.Call, own: Place | None) -> None:
        """`model.double()`, `model.to(torch.float64)`: its weights are made in float64, and JAX is told to have it."""
        asked = {self.torch_name(arg.value) for arg in node.args} - {None}
        if asked and asked <= {"torch.float32", "torch.float"}:
            return
        place = self.pending_place if own is None else self.root(own)
        wide = not asked or asked <= {"torch.float64", "torch.double"}
        if (
            not wide
            or self.context not in HOST_CONTEXTS
            or place == NOWHERE
            or (self.scope, place) in self.script.updated
        ):
            raise Unsupported("MIG301", f"{nodes.code(node)}: a model in another type")
        self.script.doubled.add(place)
        self.unit.enable_x64()

    def saved(self, kind: Model) -> Expr:
        """What of a model is saved: its parameters, with its batch statistics where it has them."""
        assert kind.place is not None
        return self.variables(kind) if self.stats_of(kind) else self.read(State(PARAMS, kind.place))

    def own_model_method(self, node: cst.Call, base: Value, kind: Model, method: str) -> Value:
        """A user's method of a module, called from outside: `model.apply(variables, ..., method="name")`."""
        if kind.place is None:
            raise Unsupported("MIG301", f"{method} of a model that has no name of its own")
        facts = self.script.functions[f"{kind.cls}.{method}"]
        names = argument_names(node.args, facts.parameter_names[0 if "staticmethod" in facts.decorators else 1 :])
        values = [self.given_whole(arg.value, facts, name) for arg, name in zip(node.args, names, strict=True)]
        self.pass_kinds(facts, node.args, values)
        lowered = zip(placed(node.args, values), values, strict=True)
        args = [arg for arg, value in lowered if not isinstance(value.kind, VANISHING)]
        args = nodes.extended(args, self.draws_for(facts, node.args, "staticmethod" not in facts.decorators))
        if self.of_fields(kind.cls, method):
            assert isinstance(node.func, cst.Attribute)
            func = node.func.with_changes(value=base.node)
            return Value(node.with_changes(func=func, args=args), facts.result)
        mode = self.mode(kind)
        applied = self.plain_apply(base.node, kind, mode, args, self.streams(kind, mode, method=True), method)
        if self.script.changes_state(kind.cls, mode):
            if self.nested:
                raise Unsupported("MIG401", "batch statistics that change inside a comprehension or a lambda")
            return Value(self.mutating_apply(kind.place, applied), facts.result)
        return Value(applied, facts.result)

    def given_whole(self, node: Expr, facts: FunctionFacts, parameter: str) -> Value:
        """An argument of a method. A batch that the method takes apart is more than one array: a step function is given
        all of them."""
        value = self.expr(node)
        whole = isinstance(value.kind, Host) and value.kind.what == "batch" and _takes_apart(facts.node, parameter)
        if not whole:
            return self.as_array(value)
        if self.region is not None:
            return value
        return replace(value, node=nodes.call("jax.tree.map", self.taken_in(value.node).func, value.node))

    def of_fields(self, cls: str, method: str) -> bool:
        """Whether a method reads nothing of its module but the fields, which a module has before its weights."""
        facts, function = self.script.classes[cls], self.script.functions[f"{cls}.{method}"]
        fields = set(facts.fields) - facts.renamed.keys() - facts.changed
        return not function.decorators and not facts.own_draws - {"dropout"} and reads_fields(function.node, fields)


def _takes_apart(function: cst.FunctionDef, parameter: str) -> bool:
    """Whether a function unpacks a parameter, or takes items of it."""
    unpacked = [found.value for found in every(function, cst.Assign) if isinstance(found.targets[0].target, cst.Tuple)]
    parts = [*unpacked, *(found.value for found in every(function, cst.Subscript))]
    return any(nodes.dotted(part) == parameter for part in parts)


def named_leaves(tree: Expr) -> Expr:
    """The leaves of parameters or gradients, each with its name: "conv1.kernel"."""
    return nodes.expression('flatten_dict({x}, sep=".").items()', x=tree)


def _in_mode(node: Expr, mode: str) -> Expr:
    """The model as it is applied: in train mode a copy that says so."""
    return nodes.call(cst.Attribute(node, cst.Name("clone")), training=nodes.name("True")) if mode == "train" else node


def _first_given(args: Sequence[cst.Arg], count: int) -> list[Expr]:
    """The first arguments of a call; what unpacks a tuple, as `*inputs` does, gives as many as are left."""
    given: list[Expr] = []
    for number, arg in enumerate(args):
        last = not any(other.keyword is None and other.star != "**" for other in args[number + 1 :])
        if arg.star == "*" and last:
            left = range(count - len(given))
            given += [nodes.expression(f"{{x}}[{part}]", x=nodes.parenthesized(arg.value)) for part in left]
        elif not arg.star:
            given.append(arg.value)
    return given[:count]

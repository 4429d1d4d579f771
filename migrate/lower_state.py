"""Calls on what torch changes in place: models, optimizers, schedulers, and the user's functions that touch them.

The state leaves the objects: `params`, `batch_stats`, `opt_state` and the random key become variables beside them, which
travel through functions as arguments and results.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import layouts, nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    ClassNode,
    Device,
    Function,
    Host,
    Items,
    Kind,
    Model,
    Module,
    ModuleClass,
    Never,
    Number,
    Optimizer,
    ParameterGroup,
    Parameters,
    Place,
    Scheduler,
    StateDict,
    Tensor,
    Weight,
)
from migrate.lower_calls import Calls
from migrate.nodes import Expr, Statement
from migrate.optimizers import OPTIMIZERS, SCHEDULES, OptimizerEntry
from migrate.rules.rule import Parameter, Value, signature
from migrate.script import (
    BATCH_STATS,
    COUNT,
    GRADS,
    KEY,
    OPT_STATE,
    PARAMS,
    THE_KEY,
    CallSite,
    Example,
    FunctionFacts,
    State,
    merge,
)
from migrate.targets import linen
from migrate.threading import parameter_order

NOWHERE = Place("", "")
_SAME = ("to", "cuda", "cpu", "float", "compile", "requires_grad_", "share_memory")


class Stateful(Calls):
    """Lowering of calls that read or write state."""

    facts: FunctionFacts | None  # of the function being lowered, None at module level
    module_needs_key = False
    changed_modes: set[Place]  # models whose mode this scope sets

    # -- the names of state -------------------------------------------------------------------------------------------

    def root(self, place: Place) -> Place:
        """The object that a parameter stands for."""
        seen = set()
        while place in self.script.parameters_of and place not in seen:
            seen.add(place)
            place = self.script.parameters_of[place]
        return place

    def state_name(self, state: State) -> str:
        """The variable that holds a piece of state in this scope."""
        place = state.place
        if state.what == KEY:
            return self.unit.key
        short = place.name.removeprefix("self.")
        if state.what == COUNT:
            return f"{short}_steps"
        if state.what == OPT_STATE:
            alone = len({found.name for found in self.script.optimizers}) <= 1
            return "opt_state" if alone and "opt_state" not in self.unit.taken else f"{short}_state"
        models = {found.name for found in self.script.places}
        plain = {PARAMS: "params", BATCH_STATS: "batch_stats", GRADS: "grads"}[state.what]
        return plain if len(models) <= 1 and plain not in self.unit.taken else f"{short}_{plain}"

    def state_expr(self, state: State) -> Expr:
        """The expression that holds a piece of state: a variable, or an attribute of the trainer object."""
        text = self.state_name(state)
        return nodes.expression(f"self.{text}") if state.place.name.startswith("self.") else nodes.name(text)

    def read(self, state: State) -> Expr:
        """Notes that this scope needs the state; returns the expression that holds it."""
        self._note(state, write=False)
        return self.state_expr(state)

    def write(self, state: State) -> Expr:
        self._note(state, write=True)
        return self.state_expr(state)

    def _note(self, state: State, write: bool) -> None:
        facts = self.facts
        if facts is None:
            self.module_needs_key |= state.what == KEY
            return
        if state.place.name.startswith("self."):
            return
        local = state.place.scope == self.scope and state.place not in self.script.parameters_of
        if state.what == KEY:
            facts.needs_key = True
            local = facts.local_key
        if local:
            return
        facts.found_reads.add(state)
        if write:
            facts.found_writes.add(state)

    def stats_of(self, model: Model) -> bool:
        return self.script.has_stats(model.cls)

    def variables(self, model: Model) -> Expr:
        """The Flax variables of a model: `{"params": params, "batch_stats": batch_stats}`."""
        assert model.place is not None
        items: list[tuple[str, Expr]] = [("params", self.read(State(PARAMS, model.place)))]
        if self.stats_of(model):
            items.append(("batch_stats", self.read(State(BATCH_STATS, model.place))))
        return nodes.dict_of(items)

    # -- random keys --------------------------------------------------------------------------------------------------

    def fresh_key(self) -> Expr:
        if self.nested:
            raise Unsupported("MIG302", "a random draw inside a comprehension or a lambda has no place for its key")
        if self.context in ("forward", "setup"):
            facts = self.script.classes[self.cls]
            facts.own_draws.add("sample" if self.scope.endswith(".forward") else "method")
            return nodes.expression('self.make_rng("sample")')
        self.read(THE_KEY)
        key = self.unit.key
        position = next((i for i, s in enumerate(self.before) if nodes.code(s).startswith(f"{key}, subkey")), None)
        if position is None:
            self.before.append(nodes.statement(f"{key}, subkey = jax.random.split({key})"))
            return nodes.name("subkey")
        names = nodes.code(self.before[position]).partition(" = ")[0]
        number = names.count(",") + 1
        text = f"{names}, subkey{number} = jax.random.split({key}, {number + 1})"
        self.before[position] = nodes.statement(text)
        return nodes.name(f"subkey{number}")

    # -- models -------------------------------------------------------------------------------------------------------

    def mode(self, model: Model) -> str:
        """The mode in which the model is now, where it matters: "train" or "eval"."""
        if not self.script.trains(model.cls) or model.place is None:
            return "eval"
        mode = self.env.modes.get(model.place, "train")
        if mode == "mixed":
            raise Unsupported(
                "MIG403", f"{model.place.name} is in train mode in one run of this line and in eval mode in another"
            )
        return mode

    def set_mode(self, place: Place, mode: str) -> None:
        self.env.modes[place] = mode
        self.changed_modes.add(place)

    def applied(self, node: Expr, model: Model, mode: str) -> Expr:
        """The model as it is applied: in train mode a copy that says so."""
        return (
            nodes.call(cst.Attribute(node, cst.Name("clone")), training=nodes.name("True")) if mode == "train" else node
        )

    def streams(self, model: Model, mode: str, method: bool = False) -> list[tuple[str, Expr]]:
        """The random streams that a call needs, each with a key of its own."""
        wanted = self.script.draws(model.cls)
        names = ["dropout"] if "dropout" in wanted and mode == "train" else []
        if "sample" in wanted or (method and "method" in wanted):
            names.append("sample")
        return [(name, self.fresh_key()) for name in names]

    def record_example(self, model: Model, args: Sequence[cst.Arg]) -> None:
        """Remembers the first call of a model: it tells what an example input looks like."""
        assert model.place is not None
        root = self.root(model.place)
        known = self.script.examples.get(root)
        trained = self.context == "region"
        if known is not None and (known.trained or not trained):
            return
        written = [arg for arg in args if not arg.star]
        forward = self.script.functions.get(f"{model.cls}.forward")
        if forward is not None:
            needed = [p for p in forward.node.params.params[1:] if p.default is None]
            written = written[: len(needed)] if needed else written[:1]
        arguments = tuple(arg.value for arg in written)
        self.script.examples[root] = Example(self.scope, arguments, dict(self.env.definitions), trained)

    def model_call(self, node: cst.Call, callee: Value, direct: bool = False) -> Value:
        """`model(x)`."""
        kind = callee.kind
        assert isinstance(kind, Model)
        if kind.place is None:
            raise Unsupported("MIG301", f"{nodes.code(node.func)}: a model that has no name of its own")
        self.record_example(kind, node.args)
        mode = self.mode(kind)
        values = [self.array(arg.value) for arg in node.args]
        result = self.call_kind(kind, node.args, values)
        if mode == "train" and self.stats_of(kind):
            raise Unsupported("MIG401", "a forward pass in train mode outside a training step changes batch statistics")
        args = [arg.with_changes(value=layouts.first(value)) for arg, value in zip(node.args, values, strict=True)]
        arrays = all(isinstance(value.kind, Tensor) or nodes.is_literal(value.node, None) for value in values)
        streams = self.streams(kind, mode)
        if not arrays or streams:
            return Value(self.plain_apply(callee.node, kind, mode, args, streams), result)
        name, leading = self.eval_step(callee.node, kind, mode)
        return Value(cst.Call(nodes.name(name), [*nodes.arguments(leading), *args]), result)

    def call_kind(self, kind: Model, args: Sequence[cst.Arg], values: Sequence[Value]) -> Kind:
        """What the model returns; what it is called with is remembered."""
        facts = self.script.functions.get(f"{kind.cls}.forward")
        if facts is None:
            return Tensor("float")
        names = [p.name.value for p in facts.node.params.params][1:]
        for number, (arg, value) in enumerate(zip(args, values, strict=True)):
            name = arg.keyword.value if arg.keyword else names[number] if number < len(names) else ""
            if name:
                merge(facts.params, name, value.kind)
        return UNKNOWN if isinstance(facts.returns, Never) else facts.returns

    def plain_apply(
        self,
        node: Expr,
        kind: Model,
        mode: str,
        args: Sequence[cst.Arg],
        streams: Sequence[tuple[str, Expr]],
        method: str = "",
    ) -> Expr:
        """`model.apply(variables, x, ...)`."""
        extra: dict[str, Expr] = {"method": nodes.expression(f'"{method}"')} if method else {}
        if streams:
            extra["rngs"] = nodes.dict_of(streams)
        function = cst.Attribute(self.applied(node, kind, mode), cst.Name("apply"))
        return cst.Call(function, [cst.Arg(self.variables(kind)), *args, *nodes.arguments([], extra)])

    def is_global(self, place: Place) -> bool:
        """Whether an object is one constant of the module that every function reaches by the same name."""
        aliased = any(self.root(target) == place for target in self.script.parameters_of)
        return place.scope == "" and place.name in self.unit.constants and not aliased

    def eval_step(self, node: Expr, kind: Model, mode: str) -> tuple[str, list[Expr]]:
        """The jitted forward pass of a model: its name, and the arguments that come before the inputs."""
        assert kind.place is not None
        stats = self.stats_of(kind)
        state = [State(PARAMS, kind.place)] + ([State(BATCH_STATS, kind.place)] if stats else [])
        params = ["params", *(["batch_stats"] if stats else [])]
        shared = self.is_global(kind.place)
        model = kind.place.name if shared else "model"
        applied = nodes.code(self.applied(nodes.name(model), kind, mode))
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
            on = method == "train" and not (node.args and nodes.is_literal(node.args[0].value, False))
            if place is not None:
                self.set_mode(place, "train" if on else "eval")
            return base
        if method in _SAME:
            for arg in node.args:
                self.expr(arg.value)
            return base
        if method == "forward" or method == "__call__":
            return self.model_call(node, base)
        if f"{kind.cls}.{method}" in self.script.functions:
            return self.own_model_method(node, base, kind, method)
        if place is None:
            raise Unsupported("MIG301", f"nn.Module.{method} of a model that has no name of its own")
        if method == "parameters":
            leaves = nodes.call("jax.tree.leaves", self.read(State(PARAMS, place)))
            return Value(leaves, Parameters((place,)))
        if method == "named_parameters":
            return Value(
                nodes.call("jax.tree.leaves_with_path", self.state_expr(State(PARAMS, place))),
                Parameters((place,), True),
            )
        if method == "state_dict":
            return Value(self.saved(kind), StateDict(place))
        raise Unsupported("MIG301", f"nn.Module.{method}")

    def saved(self, kind: Model) -> Expr:
        """What of a model is saved: its parameters, with its batch statistics where it has them."""
        assert kind.place is not None
        return self.variables(kind) if self.stats_of(kind) else self.read(State(PARAMS, kind.place))

    def own_model_method(self, node: cst.Call, base: Value, kind: Model, method: str) -> Value:
        """A user's method of a module, called from outside: `model.apply(variables, ..., method="name")`."""
        if kind.place is None:
            raise Unsupported("MIG301", f"{method} of a model that has no name of its own")
        facts = self.script.functions[f"{kind.cls}.{method}"]
        names = [p.name.value for p in facts.node.params.params][1:]
        values = [self.array(arg.value) for arg in node.args]
        args = []
        for number, (arg, value) in enumerate(zip(node.args, values, strict=True)):
            name = arg.keyword.value if arg.keyword else names[number] if number < len(names) else ""
            if name:
                merge(facts.params, name, value.kind)
            if not isinstance(value.kind, Device):
                args.append(arg.with_changes(value=layouts.first(value)))
        mode = self.mode(kind)
        applied = self.plain_apply(base.node, kind, mode, args, self.streams(kind, mode, method=True), method)
        return Value(applied, UNKNOWN if isinstance(facts.returns, Never) else facts.returns)

    def construct_user(self, node: cst.Call, callee: Value, kind: ModuleClass) -> Value:
        """`Net(...)`: its arguments become dataclass fields, so lists become tuples, which can be hashed."""
        facts = self.script.classes[kind.cls]
        args = []
        for number, arg in enumerate(node.args):
            value = self.expr(arg.value)
            name = arg.keyword.value if arg.keyword else facts.fields[number] if number < len(facts.fields) else ""
            if name and not arg.star:
                merge(facts.field_kinds, name, _frozen(value.kind))
                self.note_type(arg.value, facts.field_types.get(name, ""))
            if not isinstance(value.kind, Device):
                args.append(arg.with_changes(value=_hashable(value)))
        made = node.with_changes(func=callee.node, args=args)
        if not self.cls:
            return Value(made, Model(kind.cls))
        if self.script.trains(kind.cls):
            made = made.with_changes(
                args=[*args, *nodes.arguments([], {"training": nodes.expression("self.training")})]
            )
        return Value(made, Module((ClassNode(kind.cls),)))

    # -- user functions -----------------------------------------------------------------------------------------------

    def user_call(self, node: cst.Call, callee: Value, kind: Function, statement: bool = False) -> Value:
        """A call of the user's own function: what it touches is passed in, and comes back where it was changed."""
        facts = self.script.functions[kind.name]
        params = facts.node.params
        names = [p.name.value for p in params.params]
        bound: dict[str, Expr] = {}
        args: list[cst.Arg] = []
        followed: list[str] = []
        for number, arg in enumerate(node.args):
            value = self.expr(arg.value)
            name = arg.keyword.value if arg.keyword else names[number] if number < len(names) and not arg.star else ""
            if name:
                bound[name] = arg.value
                self.pass_kind(facts, name, value.kind)
                if isinstance(facts.params.get(name), Device):
                    continue
            self.use(arg.value, value)
            followed.append(name)
            args.append(arg.with_changes(value=layouts.first(value)))
        for parameter in params.params:
            if parameter.name.value not in bound and parameter.default is not None:
                default = self.expr(parameter.default)
                merge(facts.params, parameter.name.value, default.kind)
        facts.found_calls.append(CallSite(self.scope, bound, dict(self.env.definitions)))
        callers = self.script.callers.setdefault(kind.name, [])
        if self.scope not in callers:
            callers.append(self.scope)
        self.pass_modes(facts)
        if facts.writes - {THE_KEY} and not statement:
            raise Unsupported("MIG404", f"{kind.name} changes {', '.join(sorted({s.what for s in facts.writes}))}")
        made_args = self.threaded_args(facts, args, followed)
        made = node.with_changes(func=callee.node, args=made_args)
        return Value(made, UNKNOWN if isinstance(facts.returns, Never) else facts.returns)

    def pass_kind(self, facts: FunctionFacts, name: str, kind: Kind) -> None:
        """Binds a parameter to what it is called with; models and optimizers get a place of their own in the callee."""
        place = Place(facts.qualname, name)
        if isinstance(kind, Model) and kind.place is not None:
            self.script.parameters_of[place] = kind.place
            kind = Model(kind.cls, place)
        elif isinstance(kind, Optimizer):
            self.script.parameters_of[place] = kind.place
            kind = Optimizer(place, kind.models)
        elif isinstance(kind, Scheduler):
            self.script.parameters_of[place] = kind.place
            kind = Scheduler(place, kind.optimizer)
        elif isinstance(kind, Host):
            kind = Host(kind.what)
        merge(facts.params, name, kind)

    def outside(self, facts: FunctionFacts, place: Place) -> Place:
        """A place of the callee, seen from this scope."""
        if place.scope != facts.qualname:
            return place
        return self.script.parameters_of.get(place, place)

    def inside(self, facts: FunctionFacts, place: Place) -> list[Place]:
        own = [p for p, target in self.script.parameters_of.items() if p.scope == facts.qualname and target == place]
        return own or [place]

    def pass_modes(self, facts: FunctionFacts) -> None:
        for place, mode in self.env.modes.items():
            for inner in self.inside(facts, place):
                before = facts.found_entry_modes.get(inner, mode)
                facts.found_entry_modes[inner] = mode if before == mode else "mixed"
        for place, mode in facts.exit_modes.items():
            outer = self.outside(facts, place)
            self.set_mode(outer, mode)

    def threaded_args(self, facts: FunctionFacts, args: list[cst.Arg], followed: list[str]) -> list[cst.Arg]:
        """The arguments of a call with the state inserted where the callee's parameters have it."""
        state_of: dict[str, Expr] = {}
        for state in facts.states:
            outer = State(state.what, self.outside(facts, state.place))
            value = self.fresh_key() if state.what == KEY else self.read(outer)
            if state in facts.writes and state.what != KEY:
                self.write(outer)
            state_of[self.parameter_name(facts, state)] = value
        if not state_of:
            return args
        given = dict(zip(followed, args, strict=True)) if "" not in followed else None
        order = parameter_order(facts, self.parameter_name)
        if given is None:
            return [*args, *nodes.arguments([], state_of)]
        made: list[cst.Arg] = []
        positional = True
        for name in order:
            if name in state_of:
                keyword = {} if positional else {name: state_of[name]}
                made += nodes.arguments([] if keyword else [state_of[name]], keyword)
            elif name in given:
                positional = positional and given[name].keyword is None
                made.append(given[name].with_changes(comma=cst.MaybeSentinel.DEFAULT))
            else:
                positional = False
        return made

    def parameter_name(self, facts: FunctionFacts, state: State) -> str:
        """The name that a piece of state has inside a function."""
        return self.state_name(state)

    # -- optimizers ---------------------------------------------------------------------------------------------------

    def expr_ListComp(self, node: cst.ListComp) -> Value:
        group = self.parameter_group(node)
        return super().expr_ListComp(node) if group is None else group

    def parameter_group(self, node: cst.ListComp) -> Value | None:
        """`[p for n, p in model.named_parameters() if p.dim() >= 2]`: a selection of parameters."""
        each = node.for_in
        if (
            not isinstance(node.elt, cst.Name)
            or len(each.ifs) != 1
            or each.inner_for_in
            or not isinstance(each.iter, cst.Call)
        ):
            return None
        with self.unit.discarding():
            kind = self.expr(each.iter).kind
        if not isinstance(kind, Parameters):
            return None
        variable = node.elt.value
        names = [e.value for e in each.target.elements] if isinstance(each.target, cst.Tuple) else [each.target]
        others = {name.value for name in names if isinstance(name, cst.Name)} - {variable}
        test = each.ifs[0].test
        if others & set(nodes.loads(test)):
            return None
        lowered = self.inner({variable: Weight()}).node(test)
        group = ParameterGroup(kind.models, variable, nodes.code(test), nodes.code(lowered))
        return Value(node, group)

    def optimizer(self, name: str, node: cst.Call) -> Value:
        """A torch optimizer or scheduler: its optax form. The place is filled in where it is assigned."""
        if name in SCHEDULES:
            return self.scheduler(name, node)
        entry = OPTIMIZERS.get(name)
        if entry is None:
            raise Unsupported("MIG301", name)
        call = self.bind_call(name, signature(entry.signature), node.args)
        for refused in entry.refuses:
            call.only(refused, *([0, 0.0, False, None] if refused != "eps" else [1e-10]))
        target = call.kind("params")
        groups = call.node("params")
        mask: Expr | None = None
        if isinstance(target, Parameters):
            models = target.models
        elif isinstance(groups, cst.List) and isinstance(target, Items):
            models, mask, decay = self.parameter_groups(entry, groups)
            call.bound = {**call.bound, "weight_decay": decay}
        else:
            raise Unsupported("MIG302", f"{name}: parameters other than model.parameters()")
        scheduled = self.pending_place in self.script.scheduled
        rate = call.node("lr")
        if scheduled:
            call.bound = {**call.bound, "lr": Value(nodes.name("learning_rate"), Number())}
        made = linen.fill(entry.template, call)
        if mask is not None:
            assert isinstance(made, cst.Call)
            made = made.with_changes(args=[*made.args, *nodes.arguments([], {"mask": mask})])
        if (
            entry.decay == "coupled"
            and call.has("weight_decay")
            and not nodes.is_literal(call.node("weight_decay"), 0.0)
        ):
            decayed = nodes.call("optax.add_decayed_weights", call.node("weight_decay"))
            made = nodes.call("optax.chain", decayed, made)
        if scheduled:
            inner = nodes.expression("lambda learning_rate: {made}", made=made)
            made = nodes.expression("optax.inject_hyperparams({inner})(learning_rate={rate})", inner=inner, rate=rate)
        self.rates[self.pending_place] = rate
        return Value(made, Optimizer(NOWHERE, models))

    pending_place: Place = NOWHERE  # the target of the assignment being lowered
    rates: dict[Place, Expr]

    def parameter_groups(self, entry: OptimizerEntry, groups: cst.List) -> tuple[tuple[Place, ...], Expr, Value]:
        """Two groups that differ in weight decay only, one of them without: one optimizer with a mask."""
        parts: list[tuple[ParameterGroup, Expr]] = []
        for element in groups.elements:
            if not isinstance(element.value, cst.Dict):
                raise Unsupported("MIG302", f"{entry.torch}: parameter groups other than dicts written in place")
            items = {nodes.literal(e.key): e.value for e in element.value.elements if isinstance(e, cst.DictElement)}
            if set(items) != {"params", "weight_decay"} or entry.decay != "own":
                raise Unsupported(
                    "MIG302", f"{entry.torch}: parameter groups that differ in {sorted(map(str, set(items)))}"
                )
            kind = self.expr(items["params"]).kind
            if not isinstance(kind, ParameterGroup):
                raise Unsupported(
                    "MIG302", f"{entry.torch}: {nodes.code(items['params'])} is not a known selection of parameters"
                )
            parts.append((kind, items["weight_decay"]))
        parts.sort(key=lambda part: nodes.is_literal(part[1], 0.0) or nodes.is_literal(part[1], 0))
        if len(parts) != 2 or not (nodes.is_literal(parts[1][1], 0.0) or nodes.is_literal(parts[1][1], 0)):
            raise Unsupported(
                "MIG302", f"{entry.torch}: parameter groups other than one with and one without weight decay"
            )
        decayed, plain = parts[0][0], parts[1][0]
        if decayed.models != plain.models or not _complementary(decayed.test, plain.test):
            raise Unsupported("MIG302", f"{entry.torch}: parameter groups that are not each other's complement")
        mask = nodes.expression(f"lambda params: jax.tree.map(lambda {decayed.variable}: {decayed.lowered}, params)")
        return decayed.models, mask, Value(parts[0][1], Number())

    def scheduler(self, name: str, node: cst.Call) -> Value:
        text, template = SCHEDULES[name]
        parameters: tuple[Parameter, ...] = signature("optimizer, " + text)
        call = self.bind_call(name, parameters, node.args)
        call.only("last_epoch", -1)
        kind = call.kind("optimizer")
        if not isinstance(kind, Optimizer):
            raise Unsupported("MIG302", f"{name} of {nodes.code(call.node('optimizer'))}, which is no known optimizer")
        self.script.scheduled.add(self.root(kind.place))
        rate = self.rates.get(self.root(kind.place))
        if rate is None:
            raise Unsupported("MIG302", f"{name}: the learning rate of {kind.place.name} is not known here")
        made = call.make(template, lr=rate)
        return Value(made, Scheduler(NOWHERE, kind.place))

    def optimizer_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of an optimizer or scheduler inside an expression."""
        kind, method = base.kind, func.attr.value
        if isinstance(kind, Scheduler) and method == "get_last_lr":
            steps = self.read(State(COUNT, kind.place))
            return Value(nodes.expression("[{s}({n})]", s=base.node, n=steps), Items((Number(),)))
        if isinstance(kind, Optimizer) and method == "state_dict":
            return Value(self.read(State(OPT_STATE, kind.place)), StateDict(kind.place))
        if isinstance(kind, Scheduler) and method == "state_dict":
            return Value(self.read(State(COUNT, kind.place)), StateDict(kind.place))
        raise Unsupported(
            "MIG401", f"{func.value.value if isinstance(func.value, cst.Name) else 'optimizer'}.{method}() here"
        )


def _frozen(kind: Kind) -> Kind:
    return Items(kind.items, kind.element, "tuple") if isinstance(kind, Items) else kind


def _hashable(value: Value) -> Expr:
    node = layouts.first(value)
    if isinstance(node, cst.List):
        return nodes.tuple_of([element.value for element in node.elements])
    if isinstance(value.kind, Items) and value.kind.type == "list":
        return nodes.call("tuple", node)
    return node


_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def _complementary(one: str, other: str) -> bool:
    """Whether two tests are each other's negation, as far as their text tells."""
    if one == f"not {other}" or other == f"not {one}":
        return True
    left, right = one.split(), other.split()
    return (
        len(left) == len(right) == 3
        and (left[0], left[2]) == (right[0], right[2])
        and _OPPOSITE.get(left[1]) == right[1]
    )

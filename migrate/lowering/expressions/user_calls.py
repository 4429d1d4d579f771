"""Calls of the user's own functions: what they touch is passed in, and comes back where it was changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.facts import CallSite, FunctionFacts, merge
from migrate.known.kinds import (
    UNKNOWN,
    VANISHING,
    Function,
    Host,
    HostClass,
    Instance,
    Items,
    Kind,
    Model,
    Module,
    Never,
    Number,
    OneOfModels,
    Optimizer,
    Place,
    Plain,
    Scheduler,
    Tensor,
)
from migrate.known.qualified import scopes_around, spelled
from migrate.known.states import BATCH_STATS, KEY, PARAMS, THE_KEY, State
from migrate.known.weight_kinds import Weight
from migrate.lowering.expressions.arguments import Arguments, argument_names
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import DICT, kinds_in, without_names
from migrate.lowering.expressions.starred_calls import spread, starred_more, with_state
from migrate.lowering.host.host_draws import HostDraws
from migrate.lowering.models.object_history import changed_of_object, methods_reached, used_of_object
from migrate.lowering.models.objects_at_hand import held_in_object
from migrate.lowering.models.taken_by_objects import TakenByObjects
from migrate.lowering.modules.builders import Builders, class_of_part
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.signatures import parameter_order
from migrate.lowering.updates.traced_effects import note_told
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.changing import grown
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class UserCalls(TakenByObjects, Arguments, Builders, HostDraws, Binding):
    """Calls of functions whose state is threaded through them."""

    def user_call(self, node: cst.Call, callee: Value, kind: Function, statement: bool = False) -> Value:
        """A call of the user's own function. One that changes more than the random key must be a `statement` or be
        assigned, since its results take more than one variable."""
        facts = self.script.functions[kind.name]
        if self.facts is not None and facts.method:
            self.facts.found_uses |= facts.uses
            self.facts.found_sets |= facts.sets
            self.refuse_two_names(facts)
        self.lost = {place: call for place, call in self.lost.items() if call is not node}
        self.captured = {place: call for place, call in self.captured.items() if call is not node}
        bound: dict[str, Expr] = {}
        models: dict[str, str] = {}
        args: list[cst.Arg] = []
        followed: list[str] = []
        names = facts.parameter_names[1:] if facts.method else facts.parameter_names
        more: int | None = 0  # parameters that stars have filled beyond one each, where that is known
        for number, (arg, name) in enumerate(zip(node.args, argument_names(node.args, names), strict=True)):
            value = self.usable(self.expr(arg.value))
            if arg.star == "*":
                more = starred_more(value.kind, more)
            elif not (name or arg.star or arg.keyword) and more is not None:
                name = next(iter(names[number + more :]), "")
            value = self.as_parameter(facts, name, value)
            for hidden, (part, kind_there) in spread(node.args, number, value.kind, names, facts.defaults).items():
                bound[hidden] = part
                self.pass_kind(facts, hidden, kind_there)
                facts.found_given[hidden] = False
            self.pass_rest(facts, name, arg, value.kind)
            if name:
                bound[name] = arg.value
                if isinstance(value.kind, Model | OneOfModels):
                    models[name] = value.kind.cls if isinstance(value.kind, Model) else ""
                    self.load_in_place(facts, name, value.kind)
                elif isinstance(value.kind, Module) and facts.copies_parts:
                    models[name] = class_of_part(value.kind)
                elif isinstance(value.kind, Instance) and self.looks_at_models(value.kind.cls):
                    models[name] = value.kind.cls
                self.refuse_unknown_model(facts, name, arg.value, value.kind)
                itself = facts.qualname in self.script.by_value and nodes.dotted(arg.value) == "self"
                self.pass_kind(facts, name, self.object_kind(arg.value) if itself else value.kind)
                facts.found_given[name] = facts.found_given.get(name, True) and self.gives(arg.value)
                self.note_given(facts, name, arg.value, value.kind)
                if isinstance(facts.params.get(name), VANISHING):
                    continue
            if not (name and isinstance(value.kind, Function)):  # a parameter that is called gets what its calls need
                self.use(arg.value, value)
            followed.append(name)
            args.append(arg.with_changes(value=layouts.first(value)))
        if args and len(args) < len(node.args):
            args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        for name, default in facts.defaults.items():
            if name not in bound:
                merge(facts.found_params, name, self.expr(default).kind)
                facts.found_given[name] = False  # the default is one object for all calls
        repeated = self.loops > 0 or self.nested or self.under_jit
        facts.found_calls.append(CallSite(self.scope, bound, dict(self.env.definitions), node, repeated, models))
        callers = self.script.callers.setdefault(kind.name, [])
        if self.scope not in callers:
            callers.append(self.scope)
        if self.context == "region" and facts.method:
            self.refuse_changing(facts)
        facts.found_traced |= self.under_jit
        self.pass_modes(facts)
        made_there = [
            p
            for p in kinds_in(facts.result)
            if isinstance(p, Model | Optimizer) and p.place in self.script.handed | self.script.given_up
        ]
        if made_there and node is not self.receiving and not (self.fills_module or self.building):
            raise Unsupported("MIG404", f"what {nodes.code(node)} makes needs a name of its own")
        alone = statement or not facts.writes - {THE_KEY}
        traced = self.context == "region" and all(state.what in (BATCH_STATS, KEY) for state in facts.writes)
        if not alone and (self.nested or self.conditional or not (self.context in HOST_CONTEXTS or traced)):
            raise Unsupported(
                "MIG404", f"{spelled(kind.name)} changes {', '.join(sorted({s.what for s in facts.writes}))}"
            )
        self.know_owner(node, facts)
        added = self.take_built(facts) | self.draws_for(facts, node.args, facts.method)
        passed = nodes.extended(self.threaded_args(facts, args, followed), added)
        self.lost |= {self.outside(facts, place): node for place in facts.keeps}
        made = node.with_changes(func=callee.node, args=passed)
        if facts.method and isinstance(node.func, cst.Attribute) and nodes.dotted(node.func.value) != "self":
            self.note_taken(node, kind.name, self.place_of(node.func.value))
        result = self.of_its_argument(facts, facts.result)
        result = self.annotated_object(facts) if type(result) is Kind else result
        return Value(made, self.built_kind(result)) if alone else self.called_before(node, Value(made, result), facts)

    def know_owner(self, node: cst.Call, facts: FunctionFacts) -> None:
        """Notes the object whose method is given the weights that the object has: `trainer.loss(trainer.params, x)`."""
        receiver = nodes.dotted(node.func.value) if facts.method and isinstance(node.func, cst.Attribute) else None
        cls = facts.qualname.rpartition(".")[0]
        for state in facts.states if receiver not in (None, "self") else ():
            if state.place.of_self and state.place.scope == cls and not self.looked_at(state.place):
                held_in_object(self, f"{receiver}.{state.place.short}")

    def load_in_place(self, facts: FunctionFacts, name: str, kind: Kind) -> None:
        """Has the body of a function that only loads weights into a model, which has none yet, stand in its place."""
        place = kind.place if isinstance(kind, Model) else None
        calls = [call for call in usage.calls(facts.node.body) if nodes.dotted(call.func) == f"{name}.load_state_dict"]
        only = len(calls) == usage.loads(facts.node.body).count(name) > 0
        if only and any(pending == place for _, pending, _ in self.pending):
            self.script.going_on.add(facts.qualname)

    def pass_rest(self, facts: FunctionFacts, name: str, arg: cst.Arg, kind: Kind) -> None:
        """Notes what `*args` or `**kwargs` of a function take of an argument."""
        params = facts.node.params
        named = {parameter.name.value for parameter in (*params.params, *params.kwonly_params)}
        star = params.star_kwarg if arg.keyword is not None or arg.star == "**" else params.star_arg
        if name not in named and isinstance(star, cst.Param):
            listed = kind.joined() if arg.star == "*" and isinstance(kind, Items) else UNKNOWN
            taken = listed if arg.star else kind
            sort = DICT if star is params.star_kwarg else "tuple"
            merge(facts.found_params, star.name.value, Items(None, taken, sort))

    def as_parameter(self, facts: FunctionFacts, name: str, value: Value) -> Value:
        """An argument as the function takes it: a tensor of a batch of torch's is an array where a loss, or another
        call, gives it one. A whole batch may be a dict."""
        kind = value.kind
        batch = isinstance(kind, Host) and kind.what == "tensor" and self.region is not None
        surely = isinstance(kind, Tensor) and (self.under_jit or not kind.origins)  # others may yet feed data loading
        if batch or surely:
            facts.found_arrays.add(name)
        return self.as_array(value) if name in facts.arrays | facts.found_arrays else value

    def annotated_object(self, facts: FunctionFacts) -> Kind:
        """What a function is said to return of which nothing else is known: an object of a class of the script's."""
        returns = facts.node.returns
        kind = self.in_file_of(facts.qualname).kind_of(returns.annotation) if returns is not None else UNKNOWN
        return Instance(kind.cls) if isinstance(kind, HostClass) else UNKNOWN

    def said_to_return(self, func: cst.Attribute) -> Kind:
        """What `buffer.sample` is annotated to return, where a class of the script's own made the buffer whose methods
        are not followed, since it inherits."""
        made = self.env.definitions.get(func.value.value) if isinstance(func.value, cst.Name) else None
        if not isinstance(made, cst.Call) or self.kind_of(made.func) != Plain("class"):
            return UNKNOWN
        cls = (nodes.dotted(made.func) or "").rpartition(".")[2]
        method = f"{cls}.{func.attr.value}"
        found = [facts for name, facts in self.script.functions.items() if spelled(name) == method]
        return self.annotated_object(found[0]) if len(found) == 1 else UNKNOWN

    def of_its_argument(self, facts: FunctionFacts, kind: Kind) -> Kind:
        """What a call returns: a scheduler is one of the optimizer that this call gives, and a model or an optimizer
        that it was given is the caller's, with its weights."""
        if isinstance(kind, Items) and kind.items is not None:
            return replace(kind, items=tuple(self.of_its_argument(facts, part) for part in kind.items))
        if isinstance(kind, Weight) and kind.place is not None and kind.place.scope == facts.qualname:
            outer = self.outside(facts, kind.place)
            return replace(kind, place=outer) if outer != kind.place else Weight(kind.axes, live=kind.live)
        place = kind.place if isinstance(kind, Model | Optimizer) else None
        if isinstance(kind, Model | Optimizer) and place is not None and place.scope == facts.qualname:
            given = place.name in (*facts.parameter_names, *facts.keyword_names)
            return replace(kind, place=self.outside(facts, place)) if given else kind
        return replace(kind, optimizer=self.outside(facts, kind.optimizer)) if isinstance(kind, Scheduler) else kind

    def refuse_changing(self, facts: FunctionFacts) -> None:
        """Declines a method that a loss calls where it uses what methods change of its object: jit knows the object by
        its identity alone, and keeps what it has seen in it. The weights of its models are arguments."""
        cls = facts.qualname.rpartition(".")[0]
        methods = self.script.methods(cls)
        later = [one for name, one in methods.items() if not self.script.sets_up(name)]
        changing = self.script.attributes_changed.union(*map(changed_of_object, later))
        for attribute in sorted(used_of_object(cls, methods, facts.qualname)):
            kind = self.script.kept_in(cls, attribute)
            if attribute in changing or isinstance(kind, Optimizer | Scheduler):
                note_told(self, facts)
                self.script.parted |= {self.scope} if attribute in usage.attributes_set(facts.node.body) else set()
                if type(kind) is Kind or isinstance(kind, Number | Tensor):
                    self._note_attribute(facts, attribute, later)
                text = f"{spelled(facts.qualname)}, called by a loss, uses self.{attribute}, which changes in training"
                raise Unsupported("MIG401", f"{text}: jit keeps its first value, unless it is an argument")
        own = self.scope.rpartition(".")[0]
        needed = [self.outside(facts, state.place) for state in facts.states]
        if any(place.of_self and place.scope != own for place in needed):
            raise Unsupported("MIG401", f"{spelled(facts.qualname)}, called by a loss outside its class, has models")

    def _note_attribute(self, facts: FunctionFacts, attribute: str, later: Sequence[FunctionFacts]) -> None:
        """Notes where a method, and those that it calls of its object, read an attribute that others bind again, and
        that is no list that grows."""
        path, cls = f"self.{attribute}", facts.qualname.rpartition(".")[0]
        methods = self.script.methods(cls)
        reached = [methods[name] for name in methods_reached(cls, methods, facts.qualname)]
        if any(attribute in changed_of_object(one) for one in reached) or any(path in grown(one.node) for one in later):
            return
        for one in reached:
            found = [node for node in every(one.node.body, cst.Attribute) if nodes.dotted(node) == path]
            if found:
                self.script.asked.setdefault(one.qualname, {}).update(dict.fromkeys(found, True))

    def construct_host(self, node: cst.Call, callee: Value, kind: HostClass) -> Value:
        """`Trainer(model, ...)`: the object takes the state of the models that it is given, and keeps it."""
        name = f"{kind.cls}.__init__"
        self.script.made_in_jit |= {kind.cls} if self.under_jit else set()
        if name not in self.script.functions:
            return Value(node.with_changes(args=self.plain_args(node.args)), Instance(kind.cls))
        self.script.objects.setdefault(kind.cls, set()).add(self.pending_place)
        made = self.user_call(node, callee, Function(name))
        self.note_taken(node, name, self.pending_place)
        return Value(made.node, Instance(kind.cls))

    def parameter_kind(self, facts: FunctionFacts, parameter: cst.Param) -> Kind:
        """What a parameter of a function holds: what its calls passed, else what its annotation says."""
        kind = facts.params.get(parameter.name.value, Never())
        if type(kind) is Never:
            kind = self.annotated_maker(parameter.annotation)
        if type(kind) is Never and facts.qualname in self.script.by_value:
            kind = self.given_by_value(facts, parameter.name.value)
        if type(kind) is not Never:
            return kind
        annotation = nodes.annotation(parameter)
        if annotation in ("torch.Tensor", "Tensor"):
            return Tensor()
        if annotation in ("int", "float", "bool"):
            return Number()
        return Never() if self.script.rounds == 1 and self._is_called(facts) else UNKNOWN

    def _is_called(self, facts: FunctionFacts) -> bool:
        """Whether the file calls a function by its name: those calls may come later."""
        return any(nodes.dotted(call.func) == facts.node.name.value for call in usage.calls(self.unit.source.module))

    def given_by_value(self, facts: FunctionFacts, parameter: str) -> Kind:
        """What a function that is used as a value may be called with: what any unknown value is."""
        names = facts.parameter_names
        calls = [given for given in self.script.value_calls if len(given) == len(names) and parameter in names]
        return Items(tuple(given[names.index(parameter)] for given in calls)).joined()

    def note_value_call(self, node: cst.Call, kind: Kind) -> None:
        """Notes what a value of which nothing is known is called with: it may be any function that is used as one."""
        plain = not any(arg.keyword or arg.star for arg in node.args)
        if type(kind) is Kind and self.context in HOST_CONTEXTS and plain:
            self.script.value_calls.add(tuple(self.object_kind(arg.value) for arg in node.args))

    def object_kind(self, node: Expr) -> Kind:
        """The kind of an argument by its name; that of `self` is its class."""
        own = self.context == "method" or (self.facts is not None and self.facts.method)
        return Instance(self.scope.rpartition(".")[0]) if own and nodes.dotted(node) == "self" else self.kind_of(node)

    def called_before(self, node: cst.Call, call: Value, facts: FunctionFacts) -> Value:
        """A call that changes state, in the middle of an expression: it is made before the statement, which takes its
        result."""
        states = self.returned_states(facts, node)
        if isinstance(facts.returns, Never):
            self.before.append(nodes.statement("{t} = {c}", t=nodes.bare_tuple(states), c=call.node))
            return Value(nodes.name("None"), Plain("None"))
        used = {name for statement in self.before for name in usage.stores(statement)} | self.unit.taken
        number, name = 1, "result"
        while name in used:
            number += 1
            name = f"result_{number}"
        targets = nodes.bare_tuple([*states, nodes.name(name)])
        self.before.append(nodes.statement("{t} = {c}", t=targets, c=call.node))
        return Value(nodes.name(name), call.kind)

    def pass_kind(self, facts: FunctionFacts, name: str, kind: Kind) -> None:
        """Binds a parameter to what it is called with; models and optimizers get a place of their own in the callee."""
        self.note_tensors_listed(kind)
        place = Place(facts.qualname, name)
        if isinstance(kind, Model) and kind.place is not None:
            self.script.parameters_of[place] = kind.place
            self.script.passed.setdefault(place, set()).add(kind.place)
            kind = Model(kind.cls, place)
        elif isinstance(kind, Optimizer):
            self.script.parameters_of[place] = kind.place
            self.script.passed.setdefault(place, set()).add(kind.place)
            kind = Optimizer(place, tuple(self.inside(facts, model)[0] for model in kind.models))
        elif isinstance(kind, Scheduler):
            self.script.parameters_of[place] = kind.place
            kind = replace(kind, place=place, optimizer=self.inside(facts, kind.optimizer)[0])
        elif isinstance(kind, Host):
            kind = Host(kind.what)
        merge(facts.found_params, name, without_names(kind))

    def refuse_unknown_model(self, facts: FunctionFacts, name: str, given: Expr, kind: Kind) -> None:
        """Declines to give what nothing is known of to a function that other calls give a model, whose weights it takes
        beside it: it would take none from any call."""
        models = self.script.passed.get(Place(facts.qualname, name), ())
        if type(kind) is Kind and models and _makes_use_of(facts.node, name):
            text = f"{spelled(facts.qualname)}() takes a model, or an optimizer, for {name}"
            raise Unsupported("MIG306", f"{text}: nothing is known of {nodes.code(given)}")

    def outside(self, facts: FunctionFacts, place: Place) -> Place:
        """A place of the callee, seen from this scope."""
        if self._of_a_maker(facts, place):
            return self._given_to_maker(place)
        if place.scope != facts.qualname:
            return self.whose_weights(place) if self.looked_at(place) else place
        return self.script.parameters_of.get(place, place)

    def _of_a_maker(self, facts: FunctionFacts, place: Place) -> bool:
        """Whether a place of the callee is a parameter of the function that it was defined in, which has returned it to
        this scope: `step = make_step(model)`."""
        if place.of_self or place.scope == facts.qualname or place not in self.script.parameters_of:
            return False
        return place.scope in scopes_around(facts.qualname) and place.scope not in scopes_around(self.scope)

    def _given_to_maker(self, place: Place) -> Place:
        """What the maker of a function was given. Raises Unsupported where this scope does not have it."""
        given, maker = self.script.passed.get(place, set()), f"{spelled(place.scope)}()"
        calls = self.script.functions[place.scope].calls if place.scope in self.script.functions else []
        if len(given) > 1 or (not given and len({id(site.node) for site in calls}) > 1):
            raise Unsupported("MIG404", f"{maker} is given several models, and what it returns is called with each")
        found = self.script.parameters_of[place]
        if found.scope not in (self.scope, self.unit.scope) and not found.of_self:
            raise Unsupported("MIG404", f"{maker} was given {found.name} elsewhere, whose state is not at hand here")
        return found

    def inside(self, facts: FunctionFacts, place: Place) -> list[Place]:
        """A place of this scope, seen from the callee: the parameters that it is passed for."""
        own = [
            parameter
            for parameter, target in self.script.parameters_of.items()
            if target == place and (parameter.scope == facts.qualname or self._of_a_maker(facts, parameter))
        ]
        return [*own, *self.attributes_of(facts, place)] or [place]

    def pass_modes(self, facts: FunctionFacts) -> None:
        """Train and eval modes go into the callee, and come back as it leaves them; not where a call only tells what a
        model is first called with."""
        if self.sampling:
            return
        for place, mode in self.env.modes.items():
            for inner in self.inside(facts, place):
                before = facts.found_entry_modes.get(inner, mode)
                facts.found_entry_modes[inner] = mode if before == mode else "mixed"
        for place, mode in facts.exit_modes.items():
            self.set_mode(self.outside(facts, place), mode)

    def threaded_args(self, facts: FunctionFacts, args: list[cst.Arg], followed: list[str]) -> list[cst.Arg]:
        """The arguments of a call with the state inserted where the callee's parameters have it. `followed` are the
        parameters that the arguments are for, "" where a star hides it: then the state is passed by keyword."""
        state_of: dict[str, Expr] = {}
        given = dict(zip(followed, args, strict=True))
        absent = _left_out(facts, given)
        for state in facts.states:
            outer = State(state.what, self.outside(facts, state.place))
            if state.place in absent:
                state_of[self.state_name(state)] = nodes.name("None")
                continue
            value = self.key_for(facts, given) if state.what == KEY else self.read(outer)
            self.script.passed_on.add(outer)
            if state in facts.writes and state.what != KEY:
                self.write(outer)
                if facts.trains or state.what != PARAMS:
                    self.note_training(outer)
            state_of[self.state_name(state)] = value
        if not state_of:
            return args
        if "" in followed:
            order = parameter_order(facts, self.state_name)
            return with_state(args, followed, state_of, order[1:] if facts.method else order)
        made: list[cst.Arg] = []
        positional = True
        order = parameter_order(facts, self.state_name)
        last = max((order.index(name) for name in given if given[name].keyword is None), default=-1)
        for number, name in enumerate(order[1:] if facts.method else order, 1 if facts.method else 0):
            if name in state_of:
                bare = number < last or nodes.literal(state_of[name]) is ...  # else training=True
                positional = positional and bare
                keyword = {} if positional else {name: state_of[name]}
                made += nodes.arguments([] if keyword else [state_of[name]], keyword)
            elif name in given:
                positional = positional and given[name].keyword is None
                plain = {"comma": cst.MaybeSentinel.DEFAULT, "whitespace_after_arg": cst.SimpleWhitespace("")}
                made.append(given[name].with_changes(**plain))
            else:
                positional = False
        keywords = {name: value for name, value in state_of.items() if name not in order}
        return nodes.extended([*made, *(arg for name, arg in given.items() if name not in order)], keywords)

    def returned_states(self, facts: FunctionFacts, call: cst.Call) -> list[Expr]:
        """The variables of this scope that take what a function returns of its state: none takes the state of a
        parameter that a call leaves out."""
        names = facts.parameter_names[1:] if facts.method else facts.parameter_names
        absent = _left_out(facts, dict(zip(argument_names(call.args, names), call.args, strict=True)))
        written = [state for state in facts.written if state.what != KEY]
        return [
            nodes.name("_")
            if state.place in absent
            else self.write(State(state.what, self.outside(facts, state.place)))
            for state in written
        ]

    def given_states(self, facts: FunctionFacts) -> list[State]:
        """The state of what a function has made and used, and returns with it."""
        return self.given_with(facts.returns)

    def given_with(self, kind: Kind) -> list[State]:
        """The same of what it returns."""
        parts = [part for part in kinds_in(kind) if isinstance(part, Model | Optimizer)]
        return [state for part in parts if part.place in self.script.given_up for state in self.state_of(part)]

    # -- statements ---------------------------------------------------------------------------------------------------

    def user_statement(
        self, line: cst.SimpleStatementLine, node: cst.Call, callee: Value, kind: Function
    ) -> list[Statement]:
        """`f(x)` as a statement: `params, opt_state = f(params, opt_state, x)` where f changes state; a function that
        seeds torch is followed by the key that it stands for."""
        facts = self.script.functions[kind.name]
        value = self.user_call(node, callee, kind, statement=True)
        states = self.returned_states(facts, node)
        if facts.seeds and self.wants_key():
            names = argument_names(node.args, facts.parameter_names)
            given = facts.defaults | dict(zip(names, (arg.value for arg in node.args), strict=True))
            seed = given.get(facts.seeds)
            if seed is not None:
                self.ran_key |= not self.conditions
                return [line, nodes.statement(f"{self.unit.key} = jax.random.key({{seed}})", seed=self.node(seed))]
        if not states:
            return [line.with_changes(body=[cst.Expr(value.node)])]
        if not isinstance(facts.returns, Never):
            states = [*states, *[nodes.name("_")] * (1 + len(self.given_states(facts)))]
        return suites.assigned(line, nodes.bare_tuple(states), value.node)

    def assigned_call(
        self, line: cst.SimpleStatementLine, small: cst.Assign, targets: list[cst.BaseAssignTargetExpression]
    ) -> list[Statement] | None:
        """`y = f(x)` where f changes state: `params, opt_state, y = f(params, opt_state, x)`."""
        if not isinstance(small.value, cst.Call) or not isinstance(self.kind_of(small.value.func), Function):
            return None
        callee = self.expr(small.value.func)
        if not isinstance(callee.kind, Function):
            return None
        facts = self.script.functions[callee.kind.name]
        if not facts.writes - {THE_KEY}:
            return None
        if self.given_states(facts):
            return None
        value = self.user_call(small.value, callee, callee.kind, statement=True)
        states = self.returned_states(facts, small.value)
        for target in targets:
            self.bind(target, value.kind)
            self.define_target(target, None)
        if len(small.targets) != 1 or isinstance(facts.returns, Never):
            raise Unsupported(
                "MIG404", f"{spelled(callee.kind.name)} changes state and returns nothing that could be assigned"
            )
        names = nodes.bare_tuple([*states, targets[0]])
        return [line.with_changes(body=[small.with_changes(targets=[nodes.target(names)], value=value.node)])]


def _left_out(facts: FunctionFacts, given: Mapping[str, cst.Arg]) -> set[Place]:
    """The parameters of a function that a call leaves at their default, or gives None for. They have no state."""
    return {
        Place(facts.qualname, name)
        for name in facts.defaults
        if name not in given or nodes.literal(given[name].value) is None
    }


def _makes_use_of(function: cst.FunctionDef, name: str) -> bool:
    """Whether a function calls an argument, reads something of it, or hands it on, more than to show it."""
    owners = {nodes.dotted(one.value) for one in every(function.body, cst.Attribute)}
    calls = [call for call in usage.calls(function.body) if nodes.dotted(call.func) not in ("print", "str", "type")]
    given = {nodes.dotted(arg.value) for call in calls for arg in call.args}
    return name in owners | given | {nodes.dotted(call.func) for call in calls}

"""Where a script makes a model, its weights are made too: one call of `model.init` on an example input."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import Example, FunctionFacts, Way
from migrate.known.kinds import HostClass, Kind, Model, Place, Scheduler, Tensor
from migrate.known.qualified import is_chosen, options
from migrate.known.script import Script
from migrate.known.states import BATCH_STATS, COUNT, CYCLE, GRADS, OPT_STATE, PARAMS, State
from migrate.known.told_classes import Choice
from migrate.lowering.initial.decided_calls import call_of_each, needed, whole_rows, with_values
from migrate.lowering.initial.method_examples import MethodExamples
from migrate.lowering.initial.method_features import MethodFeatures
from migrate.lowering.initial.taken_examples import TakenExamples
from migrate.lowering.models.objects_at_hand import asks_object
from migrate.lowering.optimizers.schedules import rate_of_own
from migrate.lowering.statements.state import Awaited
from migrate.lowering.weights.frozen_weights import nothing_frozen
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.weights import surely_keeps_statistics, weights_of


class Initialisation(MethodFeatures, MethodExamples, TakenExamples):
    """Initialisation of models and optimizers."""

    def new_model(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        """`model = Net()`: its parameters are made as soon as what an example input stands on is there."""
        kind = value.kind
        assert isinstance(kind, Model)
        if not isinstance(target, cst.Name | cst.Attribute):
            raise Unsupported("MIG401", f"a model assigned to {nodes.code(target)}")
        place = self.place_of(target)
        handed = place in self.script.handed
        self.script.places[place] = self.class_at(place, kind)
        if handed:
            self.script.handed_classes[place] = self.script.places.pop(place)  # its callers have it
        self.bind(target, Model(kind.cls, place))
        self.define_target(target, None)
        self.set_mode(place, kind.mode or "train")
        made = suites.rebuilt(line, small, small.with_changes(value=value.node))
        if kind.copied is not None:
            counted = [nodes.statement("{n} = 0", n=self.write(State(COUNT, place)))] if self.averages(place) else []
            return [*made, *self.copied_weights(place, kind.copied), *counted]
        if self.script.weightless(kind.cls):
            return made
        self.ready.discard(place)
        self.captured.pop(place, None)
        states = self.state_of(Model(kind.cls, place))
        made += [] if handed else nothing_frozen(self, place)
        if place in self.script.perhaps_loaded:
            return [*made, *(nodes.statement("{s} = None", s=self.write(state)) for state in states)]
        if not handed and not any(entry[:2] == ("model", place) for entry in self.pending):
            self.make_later(place, line)
        return made

    def copied_weights(self, place: Place, source: Place) -> list[Statement]:
        """`copy.deepcopy(model)`: the same module, with arrays of its own, since training gives those away."""
        self.script.copies.add(place)
        self.ready.add(place)
        made: list[Statement] = []
        for what in (PARAMS, BATCH_STATS) if self.script.has_stats(self.script.places[place]) else (PARAMS,):
            text = "{own} = jax.tree.map(jnp.copy, {given})"
            given = self.read(State(what, source))
            made.append(nodes.statement(text, own=self.write(State(what, place)), given=given))
        return made

    def late_inits(self) -> list[Statement]:
        """The initialisations that have become possible after a statement of this scope."""
        if self.context not in ("module", "function", "method") or not self.pending:
            return []
        made: list[Statement] = []
        waiting: set[Place] = set()
        while self.pending:
            what, place, line = self.pending[0]
            if what == "model" and (self.made_after_branch(place) or self.gets_parts_first(place)):
                break
            if what == "optimizer" and self.is_told_after_branch(place):
                break
            if self.loops > self.pending_in.get(place, self.loops):
                break  # each turn of the loop would make them anew
            make = {
                "model": self.init_model,
                "part": self.init_parts,
                "optimizer": self.init_optimizer,
                "rate": self.init_rate,
            }[what]
            try:
                statements = make(place)
            except Awaited as other:
                waiting.add(place)
                error = self.in_a_circle(place, other.place, waiting)
                if error is None:
                    self.make_first(other.place)
                    continue
                statements = self.never_made(place, error, line)
            except Unsupported as error:
                statements = self.never_made(place, error, line)
            if statements is None:
                break
            made += statements
            self.pending.pop(0)
        return made

    def in_a_circle(self, place: Place, other: Place, waiting: AbstractSet[Place]) -> Unsupported | None:
        """Why the weights of another model cannot be made before those of one whose example stands on it."""
        if other in waiting:
            return Unsupported(
                "MIG402", f"the first inputs of {place.name} and {other.name} are made with each other's weights"
            )
        if set(options(self.script.places[place])) & set(options(self.script.places[other])):
            told = f"make {other.name} before {place.name}: models of one class are told apart by their order"
            return Unsupported(
                "MIG402", f"the first input of {place.name} is made with the weights of a later one; {told}"
            )
        return None

    def make_first(self, place: Place) -> None:
        """Moves a model to the front of those that are not made yet: another one's example stands on its output."""
        entry = next(entry for entry in self.pending if entry[:2] == ("model", place))
        self.pending.remove(entry)
        self.pending.insert(0, entry)

    def never_made(self, place: Place, error: Unsupported, line: cst.CSTNode) -> list[Statement]:
        """In the place of an initialisation that is declined."""
        self.unit.report(error, line)
        self.stays_unbound(place)
        text = nodes.code(cst.SimpleString(repr(f"{error.code}: {error.message}")))
        return [nodes.statement(f"raise NotImplementedError({text})")]

    def stays_unbound(self, place: Place) -> None:
        """Remembers that the weights of a model are not made, which is said once: not where they are read, too."""
        states = self.state_of(Model(self.script.places[place], place)) if place in self.script.places else []
        self.unit.refused.update(usage.loads([self.state_expr(state) for state in states]))

    def finish_inits(self) -> None:
        """Reports what could not be initialised by the end of a scope."""
        quiet = {place for _, place, _ in self.pending if self.is_never_read(place)} | self.said_unmade
        for what, place, line in self.pending:
            self.want_inside(place)
            self.stays_unbound(place)
            if place in self.script.tabulated.keys() - self.script.unfed:
                continue
            self.script.unfed |= {place} - self.script.examples.keys() if what == "model" else set()
            self.script.unmade |= {place} & self.script.calls_elsewhere.keys() if what == "model" else set()
            told = place.name in self.unit.refused_reads or place in quiet
            if what in ("model", "part") and not told:
                self.unit.report(
                    Unsupported("MIG402", f"{place.name}: no call of it was found to take the input from"), line
                )
        self.pending = []

    def is_never_read(self, place: Place) -> bool:
        """Whether nothing asks a model for weights: `layer = nn.Linear(3, 4)`, to be looked at."""
        waits = any(entry[0] != "model" for entry in self.pending) or place in self.read_unmade
        elsewhere = any(place.name in unit.source.text for unit in self.unit.others.values() if unit is not self.unit)
        return place.scope == self.scope and not place.of_self and not waits and not elsewhere

    def takes_nothing(self, example: Example, cls: str) -> bool:
        """Whether a model is called with nothing, and its forward pass reads what it works on of its file."""
        facts = self.script.functions.get(f"{cls}.forward")
        alone = facts is not None and len(facts.parameter_names) == 1
        return alone and not (example.arguments or example.method or is_chosen(cls))

    def read_by_passes(self, cls: str) -> list[str]:
        """The names of the file that the forward pass of a class reads."""
        facts = self.script.functions[f"{cls}.forward"]
        known = set(usage.stores(self.unit.source.module.body)) - set(usage.stores(facts.node.body))
        return [name for name in dict.fromkeys(usage.loads(facts.node.body)) if name in known]

    def init_model(self, place: Place) -> list[Statement] | None:
        """`params = model.init(key, example)["params"]`, or None where the example is not to be had yet."""
        cls = self.class_now(place)
        if is_chosen(cls) and self.called_apart(place):
            return self.init_of_each(place, self.script.choices[place])
        ways = self.ways_at(place)
        example = self.simplest_example(place)
        if place in self.script.unmade and example is not None:
            example = self.example_at_hand(place, example)
        function = self.script.functions.get(f"{cls}.forward")
        if ways and example is not None and function is not None:
            example = with_values(example, function.node, ways)
        early = place in self.script.early - self.script.postponed
        resolved = [self.afresh(each) for each in self.resolve(example, early)] if example is not None else []
        zeros: list[Expr] = []
        calls = [call for argument in resolved for call in usage.calls(argument)]
        waits = any(map(self.makes_loader, calls))
        if early or waits or not resolved:
            zeros = [] if is_chosen(cls) else self.example_of_zeros(cls, self.made_by(place), pooled=early)
        if not resolved and not zeros and place in self.script.unfed:
            zeros = self.script.tabulated.get(place, [])
        if not resolved and not zeros and place in self.script.unfed and not is_chosen(cls):
            zeros = self.example_of_tokens(cls) or self.example_of_features(cls, self.made_by(place))
        whole = example is None or not example.reaches  # zeros stand for what every call gives, and for no more
        zeros = zeros if whole else []
        refused = self.not_to_be_taken(place, resolved)
        asked = any(asks_object(self, call) or isinstance(self.kind_of(call.func), HostClass) for call in calls)
        better = refused or asked or self.moves_on(resolved) or any(map(self.may_be_unset, resolved))
        if better or any(self.draws_inside(argument) or self.draws_on_host(argument) for argument in resolved):
            zeros = zeros or ([] if is_chosen(cls) or not whole else self.example_of_features(cls, self.made_by(place)))
        if refused is not None and not zeros:
            by_method = example is not None and example.method and not is_chosen(cls)
            of_features = self.methods_of_features(place, self.made_by(place)) if by_method else []
            if not of_features:
                raise refused
            return self.made_of_zeros(place, of_features, method=True)
        bare = example is not None and self.takes_nothing(example, cls)
        if not resolved and not zeros and not bare:
            return self.init_by_methods(place, early)
        names = _parameters(function, example) if function is not None and example is not None else []
        outer, self.before = self.before, []
        try:
            prepared, arguments = (
                ([], zeros) if zeros or bare else self.example_arguments(resolved, (), function, names)
            )
            if bare and not all(map(self.available_name, self.read_by_passes(cls))):
                arguments = None
            if arguments is None and whole and (early or self.ends_constructor()) and not is_chosen(cls):
                zeros = self.example_of_zeros(cls, self.made_by(place))
                zeros = zeros or self.example_of_tokens(cls) or self.example_of_features(cls, self.made_by(place))
                prepared, arguments = [], zeros or None
            if arguments is None and early and example is not None:
                further = [self.afresh(each) for each in self.resolve(example, early, through_objects=True)]
                prepared, arguments = self.example_arguments(further, (), function, names)
            if arguments is None:
                self.waiting.add(place)
                return None
            key = self.init_keys(cls)
            made = [*self.before, *prepared]
        finally:
            self.before = outer
        found = None if zeros else example
        given = nodes.arguments(arguments) if found is None else found.as_arguments(arguments)
        if ways:
            each = call_of_each(function.node, given, ways) if function is not None else None
            if each is None or self.script.method_examples.get(place):
                names = ", ".join(dict.fromkeys(name for way in ways for name, _ in way))
                told = f"{place.name}: an example that goes through all of its layers, as {names} says"
                raise Unsupported("MIG402", told)
            return self.made_weights(place, made, key, each)
        method = found.method if found is not None and found.method else "forward"
        return self.made_weights(place, made, key, self.with_parts_beside(place, given, early, method))

    def ways_at(self, place: Place) -> list[Way]:
        """The ways through a model that are needed to reach all of its layers; none where each call reaches them."""
        ways = self.script.ways.get(place, {})
        return needed(ways) if len(ways) > 1 or whole_rows(ways) else []

    def init_of_each(self, place: Place, choice: Choice) -> list[Statement] | None:
        """`if args.model == "lstm": params = model.init(key, x, hidden)["params"]`, and so on, of a model that takes
        something else as an example where it is of another class."""
        sides: list[list[Statement]] = []
        for holds in (True, False):
            before = dict(self.env.left)
            self.classes_where(choice.test, holds)
            try:
                rest = choice.no if isinstance(choice.no, Choice) and not holds else None
                if rest is None and is_chosen(self.class_now(place)) and self.called_apart(place):
                    raise Unsupported("MIG402", f"{place.name}: which class takes which first input is not told")
                made = self.init_model(place) if rest is None else self.init_of_each(place, rest)
            finally:
                self.env.left = before
            if made is None:
                return None
            sides.append(made)
        self.ready.add(place)
        alike = itertools.takewhile(lambda pair: pair[0].deep_equals(pair[1]), zip(*sides, strict=False))
        shared = [one for one, _ in alike]  # what splits a key
        return [*shared, suites.branch(self.node(choice.test), *(side[len(shared) :] for side in sides))]

    def simplest_example(self, place: Place) -> Example | None:
        """What a model is first called with; of one that takes what other calls give, as a target network does, or that
        nothing calls, what a model that is made by the same expression takes as it is."""
        example = self.script.examples_of.get((place, self.class_now(place)))
        if example is None and not self.called_apart(place):
            example = self.script.examples.get(place)
        if example is not None and example.direct:
            return example
        made = nodes.code(self.made_by(place))
        lines = every(self.unit.source.module, cst.Assign)
        alike = {nodes.code(line.targets[0].target) for line in lines if nodes.code(unchained(line.value)) == made}
        others = [
            one
            for other, one in self.script.examples.items()
            if one.direct and other.scope == place.scope and other.name in alike
        ]
        return others[0] if others else example

    def example_at_hand(self, place: Place, first: Example) -> Example:
        """What a model is given by another scope, as much of it as is taken for an example, and is to be had here;
        else the example itself."""
        for other in self.script.calls_elsewhere.get(place, {}).values():
            if other.scope == first.scope or other.names != first.names or other.reaches != first.reaches:
                continue
            outer, self.before = self.before, []
            try:
                with self.unit.discarding():
                    resolved = [self.afresh(each) for each in self.resolve(other, early=False)]
                    given = bool(resolved) and self.not_to_be_taken(place, resolved) is None
                    if given and self.example_arguments(resolved)[1] is not None:
                        return other
            except Unsupported:
                continue
            finally:
                self.before = outer
        return first

    def ends_constructor(self) -> bool:
        """Whether this is the last statement of a constructor: what an example lacks now, it never has."""
        block = self.blocks[0] if len(self.blocks) == 1 else None
        last = block is not None and block.index == len(block.statements) - 1
        return last and self.script.is_constructor(self.scope)

    def may_be_unset(self, example: Expr) -> bool:
        """Whether an example goes by what a loop of the file binds, which a constructor may run before."""
        if not self.script.is_constructor(self.scope):
            return False
        file = self.script.finals.get(self.unit.scope, {})
        own = self.facts.own_names if self.facts is not None else set()
        read = [name for name in usage.loads(example) if name not in own and type(file.get(name)) in (Kind, Tensor)]
        return any(name not in self.unit.constants and name not in self.unit.settled for name in read)

    def init_by_methods(self, place: Place, early: bool) -> list[Statement] | None:
        """`params = model.init(key, x, method=lambda model, x: model.decode(model.encode(x)))["params"]` for a model
        that is not called itself."""
        cls = self.script.places[place]
        called = self.methods_in_turn(place, early)
        if called is None:
            alone = self.ends_constructor() and not is_chosen(cls)
            zeros = self.methods_of_features(place, self.made_by(place)) if alone else []
            return self.made_of_zeros(place, zeros, method=True) if zeros else None
        given_to = [self.afresh(each) for each in called.given]
        refused = self.not_to_be_taken(place, given_to)
        elsewhere = refused or self.moves_on(given_to) or any(map(self.may_be_unset, given_to))
        if elsewhere and not is_chosen(cls):
            whole = self.weighted_parts(cls) <= self.attributes_used(cls, "forward")
            features = self.example_of_features(cls, self.made_by(place)) if whole else []
            given = nodes.arguments(features) if features else self.methods_of_features(place, self.made_by(place))
            if given:
                return self.made_of_zeros(place, given, method=not features)
        if refused is not None:
            raise refused
        outer, self.before = self.before, []
        try:
            prepared, arguments = self.example_arguments(given_to, called.whole)
            if arguments is None:
                self.waiting.add(place)
                return None
            key = self.init_keys(cls, method=True)
            made = [*self.before, *prepared]
        finally:
            self.before = outer
        given = nodes.arguments(arguments, {"method": called.function(arguments)})
        return self.made_weights(place, made, key, given)

    def made_of_zeros(self, place: Place, given: Sequence[cst.Arg], method: bool) -> list[Statement]:
        """The statements that take the weights of a model from a call of `init` with zeros."""
        outer, self.before = self.before, []
        try:
            key = self.init_keys(self.script.places[place], method=method)
            return self.made_weights(place, self.before, key, given)
        finally:
            self.before = outer

    def made_weights(
        self, place: Place, prepared: Sequence[Statement], key: Expr, given: Sequence[cst.Arg]
    ) -> list[Statement]:
        """The statements that take the weights of a model from a call of `init`, after those that prepare it."""
        cls, made = self.script.places[place], list(prepared)
        call = nodes.call(cst.Attribute(nodes.expression(place.name), cst.Name("init")), key)
        call = self.everywhere(call.with_changes(args=[*call.args, *given]))
        if self.making_parts:
            return [*made, *self.weights_of_parts(place, call)]
        params = self.write(State(PARAMS, place))
        if self.script.has_stats(cls):
            stats = self.write(State(BATCH_STATS, place))
            made.append(nodes.statement("variables = {call}", call=call))
            taken = self.taken_weights(cls, nodes.name("variables"))
            kept = kept_statistics(self.script, cls)
            made.append(nodes.statement("{p}, {s} = {taken}, {kept}", p=params, s=stats, taken=taken, kept=kept))
        else:
            taken = self.taken_weights(cls, call)
            made.append(nodes.statement("{p} = {taken}", p=params, taken=taken))
        if place in self.script.doubled:
            made.append(nodes.statement("{p} = jax.tree.map(lambda x: x.astype(jnp.float64), {p})", p=params))
        made += self.grafts(place)
        if self.sums_from_the_start(place):
            with self.naming_parameters():
                made.append(self.zero_gradients(State(PARAMS, place), State(GRADS, place)))
        if place in self.script.perhaps_loaded:
            made = [cst.If(nodes.expression("{p} is None", p=params), cst.IndentedBlock(made))]
        self.ready.add(place)
        self.untouched.add(place)
        return [*made, *self.report(place, self.class_now(place), params)]

    def grafts(self, place: Place) -> list[Statement]:
        """The statements that give a model, whose weights have just been made, those that its parts have already."""
        made: list[Statement] = []
        for name, path in self.grafted.items():
            owner, _, attribute = path.partition(".")
            kind = self.kind_of_name(name)
            if owner != place.name or not isinstance(kind, Model) or kind.place is None:
                continue
            facts = self.script.classes[self.script.places[place]]
            fields = {kept: field for field, kept in facts.kept_as.items()}
            key = fields.get(attribute) or facts.renamed.get(attribute, attribute)
            for what in (PARAMS, BATCH_STATS) if self.script.has_stats(kind.cls) else (PARAMS,):
                own, given = self.write(State(what, place)), self.read(State(what, kind.place))
                made.append(nodes.statement(f'{{own}}["{key}"] = {{given}}', own=own, given=given))
        return made

    def taken_weights(self, cls: str, variables: Expr) -> Expr:
        """The parameters among the variables of a model. Flax gives a model without any no such collection."""
        learnt = all(self.learns(option) for option in options(cls))
        if learnt:
            return nodes.expression('{x}["params"]', x=variables)
        return nodes.call(cst.Attribute(variables, cst.Name("get")), cst.SimpleString('"params"'), cst.Dict([]))

    def learns(self, cls: str) -> bool:
        """Whether models of a class have parameters, of buffers apart."""
        known = any(leaf.flax.startswith("params/") for leaf in weights_of(self.script, cls))
        return known or bool(self.script.classes[cls].extends)

    def report(self, place: Place, cls: str, params: Expr) -> list[Statement]:
        """What the constructor said of its weights, now that there are some."""
        made: list[Statement] = []
        for option in options(cls):
            facts = self.script.classes[option]
            if not facts.reports:
                continue
            self.script.parameters_of[Place(f"{option}.{facts.reports}", "self")] = place
            said = nodes.statement(f"{place.name}.{facts.reports}({{params}})", params=params)
            if is_chosen(cls):
                test = nodes.expression("isinstance({model}, {cls})", model=place.name, cls=self.class_here(option))
                said = cst.If(test, cst.IndentedBlock([said]))
            made.append(said)
        return made

    def made_by(self, place: Place) -> Expr:
        """The expression that makes a model whose weights are not made yet."""
        line = next((line for what, waiting, line in self.pending if what == "model" and waiting == place), None)
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        return unchained(small.value) if isinstance(small, cst.Assign) else nodes.name("None")

    def everywhere(self, node: Expr) -> Expr:
        """Arrays that every device of a mesh needs."""
        if not self.script.parallel:
            return node
        self.unit.use_snippet("on_all_devices")
        return nodes.call("on_all_devices", node)

    def init_keys(self, cls: str, method: bool = False) -> Expr:
        """The key of `init`, or one for each stream where the model draws samples."""
        wanted = self.script.draws(cls)
        if "sample" in wanted or (method and "method" in wanted):
            return nodes.dict_of([("params", self.fresh_key()), ("sample", self.fresh_key())])
        return self.fresh_key()

    def init_rate(self, place: Place) -> list[Statement] | None:
        """The learning rate that a scheduler sets as soon as it is made."""
        kind = self.kind_of_name(place.name)
        assert isinstance(kind, Scheduler)
        scheduler = nodes.expression(place.name)
        first = rate_of_own(scheduler) if kind.own else nodes.expression("{s}(0)", s=scheduler)
        given: dict[str, Expr] = {"learning_rate": first}
        if kind.cycles:
            given[kind.cycles] = nodes.expression("{cycle}(0)", cycle=self.state_expr(State(CYCLE, place)))
        with self.naming_parameters():  # a part of the optimizer's first state
            return [self.set_hyperparameters(kind.optimizer, given)]

    def init_optimizer(self, place: Place) -> list[Statement] | None:
        """`opt_state = optimizer.init(params)`, or None where the parameters are not made yet."""
        models = self.optimizer_models[place]
        state = State(OPT_STATE, place)
        for model in models:
            own = model.scope == self.scope and not self.passed_in(model)
            if own and model not in self.ready and self.script.places.get(self.root(model)) is not None:
                return None
        params = [self.read(State(PARAMS, model)) for model in models]
        call = nodes.expression(
            "{optimizer}.init({params})",
            optimizer=nodes.expression(place.name),
            params=params[0] if len(params) == 1 else nodes.tuple_of(params),
        )
        with self.naming_parameters():  # a first state is no use of it: a caller may make that as well
            target = self.write(state)
        first = self.where_it_is(place, self.everywhere(call))
        made: list[Statement] = [nodes.statement("{state} = {first}", state=target, first=first)]
        there = self.script.zeroed_first | self.script.backward_first | self.trained_elsewhere()
        for model in models:
            if self.root(model) in self.script.accumulated - there:
                kept = self.held_as(place.scope, model) if place.of_self else model  # beside the optimizer
                made.append(self.zero_gradients(State(PARAMS, model), State(GRADS, kept)))
        return made

    def is_told_after_branch(self, place: Place) -> bool:
        """Whether an optimizer is all that a branch makes, and functions are given its state, whichever way it goes."""
        branch = self.blocks[-1].statements[self.blocks[-1].index + 1 :]
        given = any(State(OPT_STATE, place) in facts.states for facts in self.script.functions.values())
        alone = all(isinstance(suites.alone(one), cst.Assign) for one in branch)
        inside = len(self.conditions_of(place)) == len(self.conditions) > 0
        return inside and given and alone and not self.loops

    def conditions_of(self, place: Place) -> list[Expr]:
        """The tests around the only line that makes an optimizer, where they say the same from then on."""
        around = self.made_under.get(place, [])
        told = len(around) == 1 and all(self.says_the_same(one, place) for one in around[0])
        return around[0] if told else []

    def where_it_is(self, place: Place, first: Expr) -> Expr:
        """The first state of an optimizer; None where the branch that alone makes one is not taken."""
        told = self.conditions_of(place)
        pairs = zip(map(nodes.code, told), map(nodes.code, self.conditions), strict=False)
        shared = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
        left = told[len(list(shared)) :]
        if not left:
            return first
        test = functools.reduce(
            lambda one, other: nodes.expression("{one} and {other}", one=one, other=other), map(self.node, left)
        )
        return nodes.expression("{first} if {test} else None", first=first, test=test)


def kept_statistics(script: Script, cls: str) -> Expr:
    """The batch statistics among the variables of a model, which may have none."""
    always = all(surely_keeps_statistics(script, option) for option in options(cls))
    return nodes.expression('variables["batch_stats"]' if always else 'variables.get("batch_stats", {})')


def _parameters(function: FunctionFacts, example: Example) -> list[str]:
    """The parameters that the arguments of an example are for."""
    own = function.parameter_names[1:]
    return [name or (own[number] if number < len(own) else "") for number, name in enumerate(example.names)]

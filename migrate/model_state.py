"""Where a script makes a model, its weights are made too: one call of `model.init` on an example input."""

from __future__ import annotations

import builtins
from collections.abc import Mapping

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import Host, Kind, Model, Number, Place, Tensor
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import BATCH_STATS, GRADS, OPT_STATE, PARAMS, Example, State
from migrate.train_step import TrainSteps

_GENERATED = {"jnp", "jax", "nn", "optax", "partial", "example", "np", "serialization", "Path"}


class ModelState(TrainSteps):
    """Lowering of the places where models and optimizers are made."""

    pending: list[tuple[str, Place, cst.CSTNode]]
    ready: set[Place]

    def new_model(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        kind = value.kind
        assert isinstance(kind, Model)
        if not isinstance(target, cst.Name | cst.Attribute):
            raise Unsupported("MIG401", f"a model assigned to {nodes.code(target)}")
        place = self.place_of(target)
        self.script.places[place] = kind.cls
        self.bind(target, Model(kind.cls, place))
        self.define_target(target, None)
        self.env.modes[place] = "train"
        self.ready.discard(place)
        made = self.rebuilt(line, small, small.with_changes(value=value.node))
        self.pending.append(("model", place, line))
        return made

    def when_ready(self, what: tuple[str, Place], needed: list[Place]) -> list[Statement]:
        self.pending.append((*what, cst.Name("optimizer")))
        return []

    def late_inits(self, original: Statement) -> list[Statement]:
        """The initialisations that have become possible after a statement of this scope."""
        if self.context not in ("module", "function", "method") or not self.pending:
            return []
        made: list[Statement] = []
        while self.pending:
            what, place, line = self.pending[0]
            try:
                statements = self.init_model(place) if what == "model" else self.init_optimizer(place)
            except Unsupported as error:
                self.unit.report(error, line)
                text = nodes.code(cst.SimpleString(repr(f"{error.code}: {error.message}")))
                statements = [nodes.statement(f"raise NotImplementedError({text})")]
            if statements is None:
                break
            made += statements
            self.pending.pop(0)
        return made

    def finish_inits(self, node: cst.CSTNode) -> None:
        """Reports what could not be initialised by the end of a scope."""
        for what, place, line in self.pending:
            if what == "model":
                self.unit.report(
                    Unsupported("MIG402", f"{place.name}: no call of it was found to take the input from"), line
                )
        self.pending = []

    # -- models -------------------------------------------------------------------------------------------------------

    def init_model(self, place: Place) -> list[Statement] | None:
        """`params = model.init(key, example)["params"]`, or None where the example is not to be had yet."""
        cls = self.script.places[place]
        example = self.script.examples.get(place)
        if example is None or not example.arguments:
            return None
        resolved = self.resolve(example)
        if resolved is None:
            return None
        outer, self.before = self.before, []
        try:
            prepared, arguments = self.example_arguments(resolved)
            if arguments is None:
                return None
            key = self.init_keys(cls)
            made = [*self.before, *prepared]
        finally:
            self.before = outer
        model = nodes.expression(place.name)
        call = nodes.call(cst.Attribute(model, cst.Name("init")), key, *arguments)
        params = self.write(State(PARAMS, place))
        if self.script.has_stats(cls):
            stats = self.write(State(BATCH_STATS, place))
            made.append(nodes.statement("variables = {call}", call=call))
            made.append(nodes.statement('{p}, {s} = variables["params"], variables["batch_stats"]', p=params, s=stats))
        else:
            made.append(nodes.statement('{p} = {call}["params"]', p=params, call=call))
        self.ready.add(place)
        return made

    def init_keys(self, cls: str) -> Expr:
        if "sample" in self.script.draws(cls):
            return nodes.dict_of([("params", self.fresh_key()), ("sample", self.fresh_key())])
        return self.fresh_key()

    def resolve(self, example: Example) -> list[Expr] | None:
        """The example's arguments in terms of this scope: the parameters of functions between are followed to their calls."""
        arguments, scope, definitions = list(example.arguments), example.scope, example.definitions
        for _ in range(6):
            here = scope == self.scope
            arguments = [self.expanded(argument, definitions, here) for argument in arguments]
            facts = self.script.functions.get(scope)
            if here or facts is None:
                return arguments
            call = next(iter(facts.calls), None)
            if call is None:
                return arguments
            arguments = [nodes.substituted(argument, call.bound) for argument in arguments]
            scope, definitions = call.scope, call.definitions
        return arguments

    def expanded(self, argument: Expr, definitions: Mapping[str, Expr], here: bool) -> Expr:
        """An expression with local names replaced by what they stand for: all of them where they belong to another scope,
        here those that are not bound yet."""
        for _ in range(12):
            argument = self.sample(argument)
            names = {name for name in nodes.loads(argument) if name in definitions}
            values = {name: definitions[name] for name in names if not (here and self.available_name(name))}
            if not values:
                break
            argument = self.projected(nodes.substituted(argument, values))
        return argument

    @staticmethod
    def projected(argument: Expr) -> Expr:
        """`(a, b)[0]` is `a`."""
        if isinstance(argument, cst.Subscript) and isinstance(argument.value, cst.Tuple):
            index = argument.slice[0].slice
            number = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
            if isinstance(number, int) and number < len(argument.value.elements):
                return argument.value.elements[number].value
        return argument

    def example_arguments(self, resolved: list[Expr]) -> tuple[list[Statement], list[Expr] | None]:
        """Statements that prepare an example, and the arguments of `init`; None where a name is not bound yet."""
        sources: list[Expr] = []

        class Sources(cst.CSTTransformer):
            def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
                if nodes.dotted(original_node.func) != "__first__":
                    return updated_node
                source = original_node.args[0].value
                text = nodes.code(source)
                if text not in [nodes.code(found) for found in sources]:
                    sources.append(source)
                number = [nodes.code(found) for found in sources].index(text)
                return nodes.name("example" if number == 0 else f"example_{number + 1}")

        arguments = [argument.deep_clone().visit(Sources()) for argument in resolved]
        if not all(self.available(source) for source in sources):
            return [], None
        prepared: list[Statement] = []
        bound: dict[str, Kind] = {}
        for number, source in enumerate(sources):
            value = self.expr(source)
            name = "example" if number == 0 else f"example_{number + 1}"
            node, kind = self.first_of(value)
            if node is None:
                raise Unsupported("MIG402", f"the first element of {nodes.code(source)}")
            bound[name] = kind
            prepared.append(nodes.statement(f"{name} = {{node}}", node=node))
        inner = self.inner(bound)
        inner.nested = False
        made: list[Expr] = []
        for argument in arguments:
            assert isinstance(argument, cst.BaseExpression)
            if not all(name in bound or self.available_name(name) for name in nodes.loads(argument)):
                return [], None
            made.append(inner.array(self.sample(argument)).node)
        return prepared, made

    def sample(self, argument: Expr) -> Expr:
        """One row of a tensor at hand serves as well as the rows that an index would pick."""
        if isinstance(argument, cst.Subscript) and isinstance(argument.value, cst.Name):
            kind = self.kind_of_name(argument.value.value)
            if isinstance(kind, Tensor) and len(argument.slice) == 1:
                return nodes.expression("{x}[:1]", x=argument.value)
        return argument

    def first_of(self, value: Value) -> tuple[Expr | None, Kind]:
        """A first batch, without drawing one from the loader: that would change its random order."""
        if isinstance(value.kind, Host) and value.kind.what == "loader":
            node = nodes.expression("{loader}.collate_fn([{loader}.dataset[0]])", loader=value.node)
            return node, Host("batch")
        if isinstance(value.kind, Host):
            return nodes.expression("next(iter({x}))", x=value.node), Host("batch")
        if isinstance(value.kind, Tensor):
            return nodes.expression("{x}[0]", x=value.node), Tensor()
        return None, Number()

    def available(self, node: Expr) -> bool:
        return all(self.available_name(name) for name in nodes.loads(node))

    def available_name(self, name: str) -> bool:
        if name in self.env.kinds or hasattr(builtins, name) or name in _GENERATED:
            return True
        outer = self.env.outer
        return outer is not None and outer.lookup(name) is not None

    # -- optimizers ---------------------------------------------------------------------------------------------------

    def init_optimizer(self, place: Place) -> list[Statement] | None:
        (model,) = self.optimizer_models[place]
        state = State(OPT_STATE, place)
        kind = self.script.places.get(self.root(model))
        own = model.scope == self.scope and model not in self.script.parameters_of
        if own and model not in self.ready and kind is not None:
            return None
        params = self.read(State(PARAMS, model))
        made = [
            nodes.statement(
                "{state} = {optimizer}.init({params})",
                state=self.write(state),
                optimizer=nodes.expression(place.name),
                params=params,
            )
        ]
        if self.root(model) in self.script.accumulated and self.root(model) in self.script.zeroed_late:
            grads = self.write(State(GRADS, model))
            made.append(nodes.statement("{g} = jax.tree.map(jnp.zeros_like, {p})", g=grads, p=params))
        return made

    def apply_initializer(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`model.apply(init)` in the script."""
        path = nodes.dotted(node.args[0].value) or ""
        facts = self.script.functions.get(path)
        owner = self.script.classes.get(kind.cls)
        if facts is None or owner is None:
            raise Unsupported("MIG204", f"apply({path})")
        self.initialize_tree(owner, facts.node)  # type: ignore[attr-defined]
        return []

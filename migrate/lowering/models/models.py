"""Calls of models: forward passes, and methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import Example, FunctionFacts
from migrate.known.kinds import Host, Kind, Model, Place, Tensor
from migrate.known.qualified import options
from migrate.known.states import BATCH_STATS, MODE, State
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names, placed
from migrate.lowering.expressions.elements import computed
from migrate.lowering.host.graphs import is_graph
from migrate.lowering.host.host_draws import HostDraws
from migrate.lowering.initial.method_examples import MethodUses
from migrate.lowering.models.chosen_models import joined_results
from migrate.lowering.models.jitted_passes import JittedPasses, Streams, is_traced
from migrate.lowering.models.needed_inputs import needed_by, needed_of, of_layer
from migrate.lowering.models.objects_at_hand import asks_object
from migrate.lowering.models.told_modes import ToldModes
from migrate.lowering.models.ways_through import (
    Pass,
    brought_in,
    given_to,
    passes_of,
    refuse_unpacked,
    unpacked,
    ways_of,
)
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

# In training they work with the statistics of the batch, whatever their running ones are.
_NORMS = {
    f"{kind}{n}d" for kind in ("BatchNorm", "LazyBatchNorm", "InstanceNorm", "LazyInstanceNorm") for n in (1, 2, 3)
}
_NORMS |= {"SyncBatchNorm"}


class Models(ToldModes, JittedPasses, HostDraws, MethodUses):
    """Forward passes and methods of models."""

    def mode(self, model: Model) -> str:
        """The mode in which the model is now, where it matters: "train", "eval", or "told" by the callers of a
        function."""
        if not self.script.trains(model.cls) or model.place is None or self.sampling:
            return "eval"  # an example is of the same shape, and leaves the statistics as they are
        told = self.read(State(MODE, model.place))
        if nodes.literal(told) is ...:
            if self.stats_of(model):
                raise Unsupported("MIG403", f"{model.place.name} keeps batch statistics in one run of this line alone")
            return "told"
        return "train" if nodes.is_literal(told, True) else "eval"

    def streams(self, model: Model, mode: str, method: str = "") -> list[tuple[str, Expr]]:
        """The random streams that a call needs, or that of a method, each with a key of its own."""
        wanted = self.script.draws(model.cls)
        names = ["dropout"] if "dropout" in wanted and mode != "eval" else []
        if "sample" in wanted or (method and "method" in wanted):
            drawn = not method or any(self._draws(cls, method) for cls in options(model.cls))
            names += ["sample"] if drawn else []
        return [(name, self.fresh_key()) for name in names]

    def _draws(self, cls: str, method: str) -> bool:
        """Whether a method may draw samples, itself or in what it calls."""
        facts = self.script.functions.get(f"{cls}.{method}")
        inherited = facts is not None and "super" in usage.loads(facts.node.body)
        return inherited or self.script.method_draws(cls, {method, *self.attributes_used(cls, method)})

    def record_example(self, model: Model, args: Sequence[cst.Arg], method: str = "") -> None:
        """Remembers the first call of a model, or of a method that stands for its forward pass: it tells what an
        example input looks like."""
        assert model.place is not None
        if self.facts is not None and self.facts.node.name.value in self.script.computed_again:
            return  # what it is given has been given before
        trained = self.context == "region" or (self.facts is not None and self.facts.traced)
        direct = not self.through_model([arg.value for arg in args])
        forwards = self.methods_of(model.cls, "forward")
        forward = max(forwards, key=lambda facts: len(needed_by(facts.node)), default=None)
        drawn = tuple(draw.name for draw in forward.draws) if forward is not None else ()
        more: dict[str, set[str]] = {}  # optional arguments -> the parts that they bring in
        if forward is not None and not method and len(forwards) == 1:
            args = unpacked(args, self.env.definitions)
            passes = passes_of(self, forward)
            refuse_unpacked(self, passes, args)
            self.note_ways(model, passes, args)
            there = given_to(forward, args)
            more = {name: parts for name, parts in brought_in(self, passes).items() if name in there}
        reaches = len(set[str]().union(*more.values()))
        called = self.facts is None or bool(self.facts.calls)
        at_hand = not method and self.is_first_use(model.place)
        rank, roots = (called, reaches, direct, at_hand, trained), self.roots(model.place)

        def is_better(one: Example | None) -> bool:
            return one is None or one.rank < rank or tuple(one.drawn) != drawn

        better = [root for root in roots if is_better(self.script.examples.get(root))]
        of_class = [root for root in roots if is_better(self.script.examples_of.get((root, model.cls)))]
        known = self.script.calls_elsewhere
        elsewhere = [root for root in roots if not method and self.scope not in known.get(root, {})]
        if not (better or of_class or elsewhere):
            return
        by_name = self.env.definitions
        taken = _by_key(forward, args, by_name) if forward is not None else of_layer(self, model.cls, args)
        arguments = _first_given(taken, needed_of(self, forward, args) if forward is not None else len(taken))
        names = [""] * len(arguments)
        if forward is not None:
            given = self.given_to(forward, args, method=True)
            left = [name for name in forward.parameter_names[1 + len(arguments) :] if name in more and name in given]
            arguments += [given[name] for name in left]
            names += left
            arguments += [nodes.substituted(draw.node, given) for draw in forward.draws]
            names += list(drawn)
        definitions = dict(self.env.definitions)
        example = Example(
            self.scope,
            tuple(arguments),
            definitions,
            trained,
            direct,
            called,
            tuple(names),
            method,
            at_hand=at_hand,
            optional=tuple(more),
            reaches=reaches,
        )
        self.script.examples |= dict.fromkeys(better, example)
        for root in elsewhere:
            known.setdefault(root, {})[self.scope] = example
        self.script.examples_of |= {(root, model.cls): example for root in of_class}

    def note_ways(self, model: Model, passes: Sequence[Pass], args: Sequence[cst.Arg]) -> None:
        """Notes what a call says of the layers that a forward pass goes through. Raises Unsupported where it alone goes
        through some, and takes what the model has given: other calls take something else there."""
        ways = ways_of(self, passes, args)
        roots = self.roots(model.place) if ways and model.place is not None else set[Place]()
        if not any(self.given_by(root, [arg.value for arg in args]) for root in roots):
            for root in roots:
                self.script.found_ways.setdefault(root, {}).update(ways)
            return
        for root in roots & self.script.ways.keys():
            known = frozenset[str]().union(*self.script.ways[root].values())
            told = ", ".join(f"{name}={value}" for way, parts in ways.items() if parts - known for name, value in way)
            if told:
                raise Unsupported("MIG402", f"{root.name}: layers that are only given what it has made itself, {told}")

    def is_first_use(self, place: Place) -> bool:
        """Whether the scope that has made a model calls it before anything else is done with it, where its weights are
        not made yet: what it is given is at hand where they are made."""
        block = self.blocks[0] if len(self.blocks) == 1 else None
        waits = ("model", place) in [entry[:2] for entry in self.pending] and place.scope == self.scope
        if block is None or not waits:
            return False
        return not any(place.name in usage.loads(statement) for statement in block.statements[: block.index])

    def through_model(self, arguments: Sequence[Expr]) -> bool:
        """Whether arguments were computed by some model, or are what an object of the script's holds by then: others
        are simpler examples."""
        calls = self.calls_behind(arguments)
        return any(isinstance(self.kind_of(call.func), Model) or asks_object(self, call) for call in calls)

    def given_by(self, root: Place, arguments: Sequence[Expr]) -> bool:
        """Whether arguments were computed by this model."""
        kinds = (self.kind_of(call.func) for call in self.calls_behind(arguments))
        places = (kind.place for kind in kinds if isinstance(kind, Model) and kind.place is not None)
        return any(root in self.roots(place) for place in places)

    def calls_behind(self, arguments: Sequence[Expr]) -> Iterator[cst.Call]:
        """The calls that arguments were computed by."""
        left, seen = list(arguments), set[str]()
        while left:
            node = left.pop()
            yield from usage.calls(node)
            for name in set(usage.loads(node)) - seen:
                seen.add(name)
                if name in self.env.definitions:
                    left.append(self.env.definitions[name])

    def model_call(self, node: cst.Call, callee: Value) -> Value:
        """`model(x)`: in a loss function an `apply` in place; on the host a jitted forward pass, or an `apply` where
        that cannot be jitted as it stands (other arguments than arrays, random draws)."""
        kind = callee.kind
        assert isinstance(kind, Model)
        if kind.place is None:
            raise Unsupported("MIG301", f"{nodes.code(node.func)}: a model that has no name of its own")
        self.record_example(kind, node.args)
        self.script.passes[usage.site_of(node)] = kind.place, ""
        if any(self.is_of_graph(arg.value) for arg in node.args):
            self.script.fed.setdefault(kind.cls, set()).add(usage.site_of(node))
        mode = self.mode(kind)
        forwards = self.methods_of(kind.cls, "forward")
        names = argument_names(node.args, forwards[0].parameter_names[1:]) if len(forwards) == 1 else []
        parameters = names or [""] * len(node.args)
        values = [self.fed(arg.value, forwards, name) for arg, name in zip(node.args, parameters, strict=True)]
        result = self.call_kind(kind, node.args, values)
        forward = forwards[0] if len(forwards) == 1 else None
        if not all(_takes(facts, node.args) for facts in forwards):
            self.refuse_chosen(kind.cls, f"`{nodes.code(node)}`, which not each class takes,")
        if any(facts.draws for facts in forwards):
            self.refuse_chosen(kind.cls, "a forward pass that is given what it draws")
        if forward is not None and forward.draws:
            return Value(self.drawing_pass(node, callee, kind, mode, values, forward), result)
        return self.forward_pass(node, callee, kind, mode, values, result)

    def is_of_graph(self, node: Expr) -> bool:
        """Whether an argument is a graph, or something that one holds."""
        held = isinstance(node, cst.Attribute) and is_graph(self.kind_of(node.value))
        return held or is_graph(self.kind_of(node))

    def fed(self, node: Expr, forwards: Sequence[FunctionFacts], parameter: str) -> Value:
        """An argument of a model: what data loading gives is a tensor there, or several."""
        value = self.expr(node)
        several = self.in_parts(value, forwards[0], parameter) if parameter and self.region is None else None
        if several is not None:
            return several
        value = self.as_array(value)
        return Value(self.taken_in(value.node), Tensor()) if value.kind == Host("data") else value

    def forward_pass(
        self, node: cst.Call, callee: Value, kind: Model, mode: str, values: Sequence[Value], result: Kind
    ) -> Value:
        if self.region is not None:
            return Value(self.traced_apply(kind, mode, placed(node.args, values)), result)
        args = placed(node.args, values)
        arrays = all(map(is_traced, values))
        streams = self.streams(kind, mode)
        if self.script.changes_state(kind.cls, mode):
            jitted = arrays and not self.under_jit
            return Value(self.host_training_pass(callee.node, kind, mode, args, streams, jitted), result)
        if not arrays or self.under_jit or self.script.weightless(kind.cls):
            return Value(self.plain_apply(callee.node, kind, mode, args, streams), result)
        return Value(self.jitted_pass(callee.node, kind, mode, streams, args), result)

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
        made = self.plain_apply(nodes.name(self.model_in_step(kind.place)), kind, mode, args, self.streams(kind, mode))
        if self.region is not None and self.script.weightless(kind.cls) and kind.place not in self.region.bare:
            self.region.bare.append(kind.place)
        if not self.script.changes_state(kind.cls, mode):
            return made
        if self.nested and self.region is not None and self.region.replaying and self.gives_the_same_again(kind.cls):
            return nodes.expression("{made}[0]", made=_mutable(made))
        return self.mutating_apply(kind.place, made)

    def gives_the_same_again(self, cls: str) -> bool:
        """Whether a second training pass over a batch gives what the first has given: the statistics of norms change,
        which it does not read."""
        own = any(self.script.classes[name].variables for name in self.script.with_submodules(cls))
        layers = {layer.torch for layer in self.script.layers_inside(cls)}
        changing = {name for name in layers if any(w.collection == "batch_stats" for w in TABLE[name].weights)}
        return not own and all(name.rpartition(".")[2] in _NORMS for name in changing)

    def mutating_apply(self, place: Place, made: cst.Call) -> Expr:
        """A forward pass that changes batch statistics, in statements of its own; the name that its output has."""
        made = _mutable(made)
        output = self.output_name()
        if self.region is not None and self.region.replaying:
            self.before.append(nodes.statement("{output}, _ = {made}", output=output, made=made))
            return output
        stats = self.write(State(BATCH_STATS, place))
        mutated = nodes.name(self.unit.own("mutated"))
        self.before.append(nodes.statement("{output}, {m} = {made}", output=output, m=mutated, made=made))
        self.before.append(nodes.statement('{stats} = {m}["batch_stats"]', stats=stats, m=mutated))
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
        streams: Streams,
        jitted: bool,
        method: str = "",
    ) -> Expr:
        """A forward pass outside a training step that changes batch statistics all the same."""
        assert kind.place is not None
        if self.nested:
            raise Unsupported("MIG401", "batch statistics that change inside a comprehension or a lambda")
        if not jitted:
            return self.mutating_apply(kind.place, self.plain_apply(node, kind, mode, args, streams, method))
        call = self.jitted_pass(node, kind, mode, streams, args, method)
        output = self.output_name()
        stats = self.write(State(BATCH_STATS, kind.place))
        self.before.append(nodes.statement("{output}, {stats} = {call}", output=output, stats=stats, call=call))
        return output

    def call_kind(self, kind: Model, args: Sequence[cst.Arg], values: Sequence[Value]) -> Kind:
        """What the model returns; what it is called with is remembered."""
        forwards = self.methods_of(kind.cls, "forward")
        if not forwards:
            return Tensor("float")
        for facts in forwards:
            self.pass_kinds(facts, args, values)
        return computed(joined_results(forwards))

    def plain_apply(
        self,
        node: Expr,
        kind: Model,
        mode: str,
        args: Sequence[cst.Arg],
        streams: Streams,
        method: str = "",
    ) -> cst.Call:
        """`model.apply(variables, x, ...)`."""
        extra: dict[str, Expr] = {"method": nodes.expression(f'"{method}"')} if method else {}
        if streams:
            extra["rngs"] = nodes.dict_of(streams)
        function = cst.Attribute(self.applied(node, kind, mode), cst.Name("apply"))
        return cst.Call(function, nodes.extended([cst.Arg(self.variables(kind)), *args], extra))


def _by_key(forward: FunctionFacts, args: Sequence[cst.Arg], definitions: Mapping[str, Expr]) -> Sequence[cst.Arg]:
    """The first entry of `model(**batch)`, by its key, as it is before `{k: v.to(device) for k, v in batch.items()}`
    places all of them; other arguments as they are."""
    names = forward.parameter_names[1:]
    if len(args) != 1 or args[0].star != "**" or not names:
        return args
    given = args[0].value
    match definitions.get(given.value) if isinstance(given, cst.Name) else given:
        case cst.DictComp(for_in=cst.CompFor(iter=cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("items"))))):
            given = inner
    return nodes.arguments([nodes.expression(f'{{x}}["{names[0]}"]', x=given)])


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


def _takes(forward: FunctionFacts, args: Sequence[cst.Arg]) -> bool:
    """Whether a forward pass can be called so, as far as that is written."""
    params, given = forward.node.params, [arg.keyword.value for arg in args if arg.keyword is not None]
    if any(arg.star for arg in args) or params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
        return True
    named = [p.name.value for p in params.params[1:]][len(args) - len(given) :]
    free = {*named, *(p.name.value for p in params.kwonly_params)}
    left = set(needed_by(forward.node)) & set(named)
    return len(args) - len(given) < len(params.params) and set(given) <= free and left <= set(given)


def _mutable(applied: cst.Call) -> cst.Call:
    """A forward pass that gives its batch statistics beside its output."""
    return applied.with_changes(args=nodes.extended(applied.args, {"mutable": nodes.expression('["batch_stats"]')}))

"""What a step function is given beside state and key, and in which form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    Autocast,
    DType,
    Function,
    Host,
    Instance,
    Items,
    Kind,
    Loss,
    Model,
    Number,
    Operation,
    Optimizer,
    Place,
    Plain,
    Tensor,
    is_batch,
)
from migrate.known.qualified import options
from migrate.known.states import OPT_STATE, PARAMS, State
from migrate.lowering.host.batch_entries import reads_keys
from migrate.lowering.host.graphs import COUNTS, is_graph, is_mixed, of_turns
from migrate.lowering.models.object_history import class_of_object
from migrate.lowering.updates.deciding import computed_alike, decides, decides_in_calls, differing
from migrate.lowering.updates.loss_function import LossFunctions
from migrate.lowering.updates.micro_scan import ACCUMULATE, MICRO_BATCHES
from migrate.lowering.updates.objects_read import handed_to
from migrate.lowering.updates.region import Gathering
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.none_tests import tested_for_none
from migrate.syntax.walking import every

_STATIC = (Loss, Function, Operation, Instance, Plain, Model, Optimizer, Autocast, DType)
_MADE_BY_STEP = ("updates", "keys", "mutated")
_NAMED_TUPLES = re.compile(r"(?i)\bnamedtuple\b")  # jit takes them as it does tuples


@dataclass(frozen=True)
class Step:
    """A step function before its parameters are known. All names are those inside the function."""

    wanted: str  # its name, unless that is taken
    body: list[Statement]
    states: list[State]  # passed in
    outputs: list[str]  # of these states, returned before the metrics
    donated: list[str]
    lifted: dict[str, tuple[Expr, Kind]]  # name -> the attribute that it stands for
    keys: int  # how many it draws with
    constants: frozenset[str] = frozenset()  # names that jit must know
    variables: AbstractSet[str] = frozenset()  # the script's own that the loss reads, under their names
    bare: Sequence[Place] = ()  # the models without weights that the loss applies
    drawn: Mapping[Statement, tuple[int, ...]] = field(default_factory=dict)  # statements -> the numbers of their keys


class StepInputs(LossFunctions):
    """The inputs of step functions."""

    def step_arguments(self, step: Step) -> tuple[dict[str, Expr], dict[str, Expr]]:
        """What a step function needs beside state and key: jit's static arguments (functions, objects, numbers that
        make shapes), and its array inputs."""
        states = {self.state_name(found) for found in step.states}
        objects = [
            found.place
            for found in step.states
            if found.what in (PARAMS, OPT_STATE) and found.place not in self.script.leaves
        ]
        objects += [place for place in step.bare if place.of_self]
        models = {found.place for found in step.states if found.what == PARAMS}.union(step.bare)
        named = set(usage.loads(step.body))  # a method that knows its object's models has no need of them
        called = {place: self.model_in_step(place) if place in models else place.short for place in objects}
        passed = [place for place in objects if not self.is_global(place) and called[place] in named]
        for place in passed:
            if place.of_self and called[place] in step.variables and place not in models:
                both = f"{self.named_here(place)} and another {place.short}"
                raise Unsupported("MIG401", f"the loss reads {both}, which its step would call alike: rename one")
            self.script.hashed.update(options(self.script.places.get(self.root(place), "")))
        statics = {called[place]: nodes.expression(self.named_here(place)) for place in passed}
        inputs: dict[str, Expr] = {}
        bound = (
            set(usage.stores(step.body))
            | set(usage.stores(_with_loss_in_place(step.body)))
            | {self.unit.own(name) for name in _MADE_BY_STEP}
        )
        calls = [call for one in step.body for call in usage.calls(one)]
        called_there = {call.func.value for call in calls if isinstance(call.func, cst.Name)}
        for name in dict.fromkeys(usage.loads(step.body)):
            if name in states or name in statics or name in (self.unit.key, MICRO_BATCHES):
                continue
            if name in step.lifted:
                node, kind = step.lifted[name]
                static = isinstance(kind, Loss | Function | Operation | Model) or kind == Plain("str")
                path = nodes.dotted(node) or name
                static = static or name in step.constants or name in called_there or path.endswith(".shape")
                field = self.field_of_batch(path) is not None  # which may be no tensor
                static = static or self.counts_graphs(path)
                self.tell_of_sizes(path)
                perhaps = field and _is_tested_for_none(step.body, name)
                array = perhaps or (isinstance(kind, Tensor | Host) and not field)
                if not static and not array and self._decides(step, name, path):
                    static = True
                    self.tell_of_values(path)
                if static:
                    statics[name] = node
                elif perhaps:
                    inputs[name] = self.each_taken_in(node)  # None stays None
                else:
                    inputs[name] = self.as_array(Value(node, kind)).node
            elif self.reachable(name):
                continue
            elif name not in bound:
                kind = self.kind_of_name(name)
                self.refuse_mixed(name, kind)
                function = handed_to(self.script, self.scope, name) if type(kind) is Kind else ""
                if function and not _NAMED_TUPLES.search(self.unit.source.text):
                    said = f"the loss hands {name} on to {function}, which reads attributes of it: jit takes no object"
                    raise Unsupported("MIG401", f"{said}, hand on what it reads")
                static = (isinstance(kind, _STATIC) and kind != Plain("dict")) or name in step.constants
                static = static or class_of_object(self, name) is not None or name in called_there
                decides = isinstance(kind, Number) and self._decides(step, name, name)
                if decides:
                    self.tell_of_values(name)
                if static or decides:
                    statics[name] = nodes.name(name)
                elif self.enters_by_parts(step, name, kind):
                    inputs[name] = self.entries_taken_in(step, name)
                else:
                    inputs[name] = self.as_array(Value(nodes.name(name), kind)).node
            elif self.carried_in(_with_loss_in_place(step.body), name):
                inputs[name] = self.as_array(Value(nodes.name(name), self.kind_of_name(name))).node
        for name in statics:
            kind = step.lifted[name][1] if name in step.lifted else self.kind_of_name(name)
            self.script.hashed.update(options(kind.cls) if isinstance(kind, Model) else ())
        return statics, inputs

    def counts_graphs(self, path: str) -> bool:
        """Whether a step takes a number from a graph, which an array may have the length of."""
        head, _, last = path.rpartition(".")
        return last in COUNTS and is_graph(self.kind_of_name(head))

    def _decides(self, step: Step, name: str, path: str) -> bool:
        """Whether Python goes by a number in a step, where it is `name`, or in a function that the step gives it to."""
        needed = step.constants | ({name} if path in step.constants else set())
        return decides(step.body, name, needed=needed) or decides_in_calls(self.script, self.scope, path)

    def tell_of_values(self, path: str) -> None:
        """Notes that a step is compiled for each value of a number, if a loop around changes that."""
        if path in differing(self) and not computed_alike(self, path):
            said = f"the loss decides by {path}, which differs from turn to turn: its step is compiled for each value"
            self.note_here("MIG514", said)

    def tell_of_sizes(self, path: str) -> None:
        """Notes that a step takes another graph at each turn, of other sizes."""
        name, _, field = path.rpartition(".")
        if field == "edge_index" and of_turns(self.kind_of_name(name)):
            said = f"{name} has other sizes at each turn: a step is compiled for each of them"
            code = "MIG405" if is_mixed(self.kind_of_name(name)) else "MIG501"
            self.note_here(code, said)

    def note_here(self, code: str, said: str) -> None:
        """Reports something of the statement at hand, which is converted all the same."""
        block = self.blocks[-1]
        self.unit.report(Unsupported(code, said), block.statements[block.index])

    def refuse_mixed(self, name: str, kind: Kind) -> None:
        """Declines a dict that a loss reads unless it holds arrays, batches or numbers alone: jit takes no other, and
        cannot hash a dict."""
        values = self.values_written(name)
        entering = [isinstance(nodes.literal(one), int | float) or self.enters_jax(one) for one in values]
        if kind == Plain("dict") and not (entering and all(entering)):
            raise Unsupported("MIG401", f"the loss reads {name}, a dict of more than arrays: jit takes no such dict")

    def enters_by_parts(self, step: Step, name: str, kind: Kind) -> bool:
        """Whether what a step reads is more than one array of the data loading: a batch, or a dict of some."""
        if kind == Plain("dict"):
            return any(map(self.is_of_batch, self.values_written(name)))
        spread = (type(kind) is Kind or is_batch(kind)) and _is_spread(step.body, name)  # `model(*data)`
        if is_batch(kind) and reads_keys(step.body, name):
            return True
        if isinstance(kind, Items) and is_batch(kind.joined()):  # `*images, labels = batch`
            return True
        return spread or (isinstance(kind, Host) and kind.what == "batch" and self.taken_apart(step, name))

    def entries_taken_in(self, step: Step, name: str) -> Expr:
        """What a step takes of a batch of several arrays: all of it, or the entries that it reads, where there may be
        others, or the tensors among them."""
        read = self.reader.read(self.scope, step.body, name)
        as_dict = self.reader.takes_keys(self.scope, step.body, name)
        return self.entries_as_arrays(nodes.name(name), read, as_dict)

    def enters_jax(self, node: Expr) -> bool:
        """Whether a value in a dict is an array in jit, or a number, whatever it is outside."""
        return isinstance(self.kind_of(node), Number | Tensor) or self.is_of_batch(node)

    def is_of_batch(self, node: Expr) -> bool:
        """Whether an expression is what the data loading gives, or a tensor that methods make of it: `y.float()`."""
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if f"Tensor.{node.func.attr.value}" not in RULES:
                return False
            node = node.func.value
        return is_batch(self.kind_of(node))

    def values_written(self, name: str) -> list[Expr]:
        """The values of a dict that is written out; none of others."""
        written = self.env.definitions.get(name)
        return [element.value for element in written.elements] if isinstance(written, cst.Dict) else []

    def taken_apart(self, step: Step, name: str) -> bool:
        """Whether a batch is more than one array: a step takes parts of it, or hands it on to a function, or
        as it is to a method of a model."""
        module = cst.Module(list(step.body))
        methods = {lifted for lifted, (_, kind) in step.lifted.items() if isinstance(kind, Function)}
        given_to = [call for call in usage.calls(module) if any(nodes.dotted(arg.value) == name for arg in call.args)]
        return any(nodes.dotted(found.value) == name for found in every(module, cst.Subscript)) or any(
            isinstance(self.kind_of(call.func), Function)
            or nodes.dotted(call.func) in methods
            or nodes.code(call.func).endswith(".apply")
            for call in given_to
        )

    def taken_by_turn(self, gathering: Gathering, statics: dict[str, Expr], inputs: dict[str, Expr]) -> dict[str, Expr]:
        """Takes those that differ from micro batch to micro batch out of the inputs of a step; they go together."""
        if gathering.changing & set(usage.loads(statics.values())):
            raise Unsupported("MIG401", "what jit must know differs from micro batch to micro batch")
        own = {
            name: value
            for name, value in inputs.items()
            if gathering.changing & set(usage.loads(value)) or name == self.unit.key
        }
        differing = gathering.changing - set(usage.target_names(gathering.found.fetching.target))
        kinds = [self.kind_of_name(name) for name in differing & set(usage.loads(own.values()))]
        batches = [isinstance(kind, Tensor) or (isinstance(kind, Host) and kind.what == "batch") for kind in kinds]
        if not own or not all(batches):
            raise Unsupported("MIG401", "micro batches that are no arrays")
        for name in own:
            del inputs[name]
        shared = {MICRO_BATCHES: nodes.name(MICRO_BATCHES), **inputs}
        inputs.clear()
        inputs.update(shared)
        return own


def _with_loss_in_place(body: Sequence[Statement]) -> list[cst.CSTNode]:
    """The statements of a step with those of its loss function in place of its definition."""
    made: list[cst.CSTNode] = []
    for statement in body:
        if isinstance(statement, cst.FunctionDef):
            inside = suites.suite_of(statement.body.body)
            made += _with_loss_in_place(inside) if statement.name.value == ACCUMULATE else inside
        else:
            made.append(statement)
    return made


def _is_tested_for_none(body: Sequence[Statement], name: str) -> bool:
    """Whether code asks whether there is a value under a name: `if mask is not None`."""
    tests = (tested_for_none(test) for one in body for test in every(one, cst.Comparison))
    return any(nodes.dotted(told[0]) == name for told in tests if told is not None)


def _is_spread(body: Sequence[Statement], name: str) -> bool:
    """Whether a star gives the elements of a value to a call."""
    calls = [call for one in body for call in usage.calls(one)]
    return any(arg.star == "*" and nodes.dotted(arg.value) == name for call in calls for arg in call.args)

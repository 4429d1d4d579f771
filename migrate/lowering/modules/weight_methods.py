"""Methods of module classes that run on the host: those that work on weights or set the mode, those that make models,
and those that jit cannot trace, since they take values out of tensors or decide by them (`act`, `generate` to an end),
or need not trace, and would have arrays in the place of numbers (`validation_epoch_end`).

A Flax module holds no weights: a method that counts or groups them is given them, `model.size(params)`. A class method
that makes a model is a function that makes one for its caller. A method of any sort that is not understood, as one
that fills a model with the weights of another library, is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from migrate.diagnostics import CODES, Diagnostic, Severity
from migrate.known.facts import ClassFacts, FunctionFacts
from migrate.known.kinds import Kind, Model, ModuleClass, Place
from migrate.known.qualified import spelled
from migrate.known.states import MODES
from migrate.lowering.statements.functions import Functions
from migrate.lowering.weights.any_weight import listed_for_one
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_READING = ("parameters", "named_parameters", "state_dict")


class WeightMethods(Functions):
    """What is not part of a forward pass."""

    def host_methods(self, methods: Mapping[str, cst.FunctionDef], untraced: set[str]) -> set[str]:
        """The methods of a class that run on the host. `untraced`: those that jit could not trace."""
        makers = {name for name, node in methods.items() if self.makes_models(node)}
        return weight_methods(methods, untraced) | makers

    def note_untraced(
        self,
        facts: ClassFacts,
        node: cst.FunctionDef,
        methods: Mapping[str, cst.FunctionDef],
        found: Sequence[Diagnostic],
    ) -> None:
        """Notes a method that jit cannot trace (`found` is what was said of it), or that takes numbers out of tensors,
        if nothing that is traced runs it."""
        refused = {one.code for one in found}
        by_values = "MIG307" in refused or ("MIG302" in refused and self.draws_on_host(node))
        inside = facts.reached | _called({"forward", "__init__"}, methods)
        alone = node.name.value not in inside and not self.script.inside_others(facts.name)
        function = self.script.functions[f"{facts.name}.{node.name.value}"]
        for_numbers = function.asks_numbers and not function.traced and not self.run_by_module(facts, node.name.value)
        if (by_values or for_numbers) and alone and not self.script.still_open():
            facts.untraced.add(node.name.value)

    def run_by_module(self, facts: ClassFacts, method: str) -> bool:
        """Whether a method of the same module, or of one that inherits from its class, runs a method."""
        classes = [facts, *self.script.heirs(facts.name)]
        return any(
            method in usage.attributes_of_self(function.node)
            for cls in classes
            for function in self.script.methods(cls.name).values()
        )

    def makes_models(self, node: cst.FunctionDef) -> bool:
        """Whether a method without `self` makes a model."""
        kinds = {nodes.dotted(decorator.decorator) for decorator in node.decorators}
        if not kinds & {"classmethod", "staticmethod"}:
            return False
        own = _first(node) if "classmethod" in kinds else None
        called = [nodes.dotted(call.func) for call in usage.calls(node)]
        return any(name == own or isinstance(self.kind_of_name(name), ModuleClass) for name in called if name)

    def lowered_outside(
        self, facts: ClassFacts, node: cst.FunctionDef, known: Mapping[str, Kind] | None = None
    ) -> cst.FunctionDef:
        """A method that runs on the host: the weights of its module are arguments of it. `known`: names that are bound
        there."""
        qualname = f"{facts.name}.{node.name.value}"
        function = self.script.functions[qualname]
        static = function.is_static
        function.owner_is_class = not static
        inner = self.function_scope(function)
        inner.env.kinds.update(known or {})
        if "classmethod" in function.decorators:
            inner.env.kinds[_first(node)] = ModuleClass(facts.name)
        elif not static:
            place = Place(qualname, _first(node))
            self.script.selves[place] = facts.name
            inner.env.kinds[_first(node)] = Model(facts.name, place)
        return self.as_a_whole(facts, function, node, lambda: self.defined(function, node, inner))

    def as_a_whole(
        self, facts: ClassFacts, function: FunctionFacts, node: cst.FunctionDef, lower: Callable[[], cst.FunctionDef]
    ) -> cst.FunctionDef:
        """A method as it is lowered, or one refusal for all of it."""
        start, helpers, snippets = len(self.unit.diagnostics), len(self.unit.helpers), dict(self.unit.snippets)
        made = lower()
        new = self.unit.diagnostics[start:]
        errors = [found for found in new if CODES[found.code].severity is Severity.ERROR]
        if not errors:
            return made
        first = min(errors, key=lambda found: found.code == "MIG402")  # an example would not help
        self.unit.diagnostics[start:] = [first]
        del self.unit.helpers[helpers:]
        self.unit.snippets = snippets
        if self.makes_models(node):  # its callers go on with the model that it would make
            place = Place(function.qualname, "(refused)")
            self.script.handed.add(place)
            function.returns = Model(facts.name, place)
        body = suites.suite_of(node.body.body)
        head = body[:1] if suites.is_docstring(body[0]) else []
        message = f"{spelled(function.qualname)}: {first.message}"
        refused = suites.refusal(first.code, message, body[len(head) :])
        return made.with_changes(body=suites.block_of(node.body, [*head, refused]))

    # -- what a constructor says of its weights -----------------------------------------------------------------------

    def reported(self, facts: ClassFacts, init: cst.FunctionDef) -> tuple[cst.FunctionDef, cst.FunctionDef | None]:
        """A constructor without what it prints of its weights, and a method that prints it once there are some."""
        statements = suites.suite_of(init.body.body)
        said = _about_weights(statements, facts.host_methods)
        if not said or self.script.inside_others(facts.name):
            return init, None
        known = {parameter.name.value for parameter in init.params.params}
        bound = {name for number in said for name in usage.stores(statements[number])}
        needed = {name for number in said for name in usage.loads(statements[number])} - bound - known
        if needed & set(usage.stores(init.body)) or "report" in usage.attributes(init):
            return init, None
        kept = [statement for number, statement in enumerate(statements) if number not in said]
        moved = [statements[number] for number in said]
        return init.with_changes(body=suites.block_of(init.body, kept)), suites.function(
            "report", [_first(init)], moved
        )

    def report_method(self, facts: ClassFacts, node: cst.FunctionDef) -> cst.FunctionDef:
        """That method; the parameters of the constructor are fields of the module."""
        qualname = f"{facts.name}.{node.name.value}"
        function = self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, facts.name))
        function.node = node
        facts.reports = node.name.value
        made = self.lowered_outside(facts, node, facts.field_kinds)
        own = {name: nodes.expression(f"{_first(node)}.{name}") for name in facts.fields}
        first, *rest = suites.suite_of(made.body.body)
        first = first.with_changes(leading_lines=suites.comments(first))
        return made.with_changes(body=nodes.substituted(suites.block([first, *rest]), own))


def weight_methods(methods: Mapping[str, cst.FunctionDef], known: set[str]) -> set[str]:
    """The methods of a class that work on its weights, or set its mode, directly or through others (`known`: some that
    run on the host), and that neither a forward pass nor, for the sake of initial weights, the constructor runs."""
    traced = _called({"forward"}, methods)
    built = {name for name in _called({"__init__"}, methods) if not _gives(methods[name])}
    found, modes = set(known), set(MODES) - methods.keys()
    while True:
        more = {
            name
            for name, node in methods.items()
            if name not in found | traced | built | {"__init__"} and node.params.params and _reads(node, found | modes)
        }
        if not more:
            return found
        found |= more


def _called(start: set[str], methods: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The methods that some methods run, and those themselves."""
    found, waiting = set[str](), [name for name in start if name in methods]
    while waiting:
        name = waiting.pop()
        found.add(name)
        calls = [(nodes.dotted(call.func) or "").removeprefix("self.") for call in usage.calls(methods[name])]
        waiting += [called for called in calls if called in methods and called not in found]
    return found


def _first(node: cst.FunctionDef) -> str:
    return node.params.params[0].name.value


def _reads(node: cst.FunctionDef, known: set[str]) -> bool:
    """Whether a method asks its module for weights, binds some anew, or runs one of some methods."""
    own = _first(node)
    for_one = [listed_for_one(call) for call in usage.calls(node)]
    for call in usage.calls(node):
        path = (nodes.dotted(call.func) or "").split(".")
        asked = path[-1] in _READING or (len(path) == 2 and path[1] in known)
        if path[0] == own and call not in for_one and asked:
            return True
    return any(_binds_weight(line, own) for line in _lines(node))


def _lines(node: cst.FunctionDef) -> list[cst.Assign]:
    return list(every(node.body, cst.Assign))


def _binds_weight(small: cst.Assign, own: str) -> bool:
    path = (nodes.dotted(small.targets[0].target) or "").split(".")
    return path[0] == own and len(path) > 2 and path[-1] in ("weight", "bias")


def _gives(node: cst.FunctionDef) -> bool:
    """Whether a method gives a value."""
    return any(found.value is not None for found in usage.returns(node.body))


def _about_weights(statements: list[Statement], methods: set[str]) -> list[int]:
    """Which statements of a constructor only tell something of its weights: they read them, bind plain names, print."""
    found: list[int] = []
    names: set[str] = set()
    for number, statement in enumerate(statements):
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        plain = isinstance(small, cst.Assign) and all(isinstance(t.target, cst.Name) for t in small.targets)
        if not plain and not (isinstance(small, cst.Expr) and isinstance(small.value, cst.Call)):
            continue
        paths = [(nodes.dotted(call.func) or "").split(".") for call in usage.calls(statement)]
        reads = any(
            path[0] == "self" and (path[-1] in _READING or (len(path) == 2 and path[1] in methods)) for path in paths
        )
        if reads or names & set(usage.loads(statement)):
            found.append(number)
            names |= set(usage.stores(statement))
    later = [statement for number, statement in enumerate(statements) if number not in found]
    return [] if any(names & set(usage.loads(statement)) for statement in later) else found

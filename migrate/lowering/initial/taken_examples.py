"""Examples that would take something away: a batch of `next(batches)` is one that training then misses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Function, Instance, Items, Kind, Place
from migrate.lowering.expressions.elements import QUEUES
from migrate.lowering.models.object_history import changes_with_use, used_of_object
from migrate.lowering.scope import Scope
from migrate.lowering.unit import Environment
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.projections import FIRST
from migrate.syntax.walking import every

_NEXT = ("next", "get_next")  # how methods are called that give one batch after another
_MOVING = ("reset", "step")  # methods of environments: what they give differs from call to call


class TakenExamples(Scope):
    """Iterators of the script's in what a model is first called with."""

    def afresh(self, node: Expr) -> Expr:
        """An example with iterators made anew where it is known how: `next(batches)` is the first element of what
        `batches` goes through; and without what gradients are asked of."""
        return nodes.visited(node, _Afresh(self))

    def stands_for_now(self, name: str) -> Expr | None:
        """What a name stands for, here or around."""
        scope: Environment | None = self.env
        while scope is not None:
            if name in scope.definitions:
                return scope.definitions[name]
            scope = scope.outer
        return None

    def taken_from(self, example: Sequence[Expr]) -> str | None:
        """The object that evaluating an example would change; None where it leaves all as it is."""
        for call in (call for argument in example for call in usage.calls(argument)):
            receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
            if self.takes_next(call):
                return nodes.code(call.func)
            if nodes.dotted(call.func) == "next" and call.args and not isinstance(call.args[0].value, cst.Call):
                return nodes.code(call.args[0].value)
            if receiver is None or isinstance(receiver, cst.Call):
                continue
            kind, method = self.kind_of(receiver), cst.ensure_type(call.func, cst.Attribute).attr.value
            facts = self.script.functions.get(f"{kind.cls}.{method}") if isinstance(kind, Instance) else None
            if facts is not None and _changes_itself(facts.node):
                return nodes.code(receiver)
        return None

    def takes_next(self, call: cst.Call, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a call takes the next batch of an object of unknown kind, `mnist.train.next_batch(32)`, or calls a
        function of the script's that does."""
        func, kind = call.func, self.kind_of(call.func)
        if isinstance(kind, Function) and kind.name not in seen:
            facts = self.script.functions.get(kind.name)
            inner = self.in_file_of(kind.name)
            calls = usage.calls(facts.node.body) if facts is not None else []
            return any(inner.takes_next(one, seen | {kind.name}) for one in calls)
        named = isinstance(func, cst.Attribute) and func.attr.value.startswith(_NEXT)
        return named and isinstance(func, cst.Attribute) and type(self.kind_of(func.value)) is Kind

    def not_to_be_taken(self, place: Place, example: Sequence[Expr]) -> Unsupported | None:
        """Why an example cannot be evaluated where a model is made; None where it can."""
        taken = self.taken_from(example)
        if taken:
            return _misses(place, taken)
        empty = next((call for each in example for call in usage.calls(each) if changes_with_use(self, call)), None)
        if empty is not None:
            told = f"would be asked of an object that holds nothing yet: .{nodes.code(empty.func).rpartition('.')[2]}()"
            return Unsupported("MIG402", f"an example for {place.name} {told}")
        unfilled = self.reads_empty(example)
        if unfilled:
            told = f"would be taken from {unfilled}, which is empty yet"
            return Unsupported("MIG402", f"an example for {place.name} {told}")
        return None

    def moves_on(self, example: Sequence[Expr]) -> bool:
        """Whether an example would have an environment begin or take a turn."""
        methods = [call.func for one in example for call in usage.calls(one) if isinstance(call.func, cst.Attribute)]
        return any(type(self.kind_of(func.value)) is Kind and func.attr.value in _MOVING for func in methods)

    def reads_empty(self, example: Sequence[Expr]) -> str:
        """The list which an example reads of the object that is being made, or of another one, and which its
        constructor leaves empty, or one of this scope that is empty yet; "" where there is none."""
        for name in (name for one in example for name in usage.loads(one)):
            kind = self.kind_of_name(name)
            if isinstance(kind, Items) and kind.items == () and kind.type == "list":
                return name
        for made in (call for one in example for call in usage.calls(one)):
            if nodes.dotted(made.func) in QUEUES and _is_empty(made):
                return nodes.code(made)
        read = [path for one in example for path in usage.paths(one)]
        for path in read:
            owner, _, name = path.rpartition(".")
            init = self._constructor_of(owner) if owner and owner != "self" else None
            if init is not None and f"self.{name}" in _made_empty(init):
                return path
        if self.facts is None or not self.script.is_constructor(self.scope):
            return ""
        made = _made_empty(self.facts.node)
        read += [f"self.{name}" for path in read for name in self.used_in_turn(path)]
        return next((path for path in read if path in made), "")

    def _constructor_of(self, name: str) -> cst.FunctionDef | None:
        """The constructor of the class of an object, be that one of which nothing else is known."""
        kind = self.kind_of_name(name)
        if isinstance(kind, Instance):
            facts = self.script.functions.get(f"{kind.cls}.__init__")
            return facts.node if facts is not None else None
        file = self.unit.source.module
        made = [value for target, value in usage.bindings(file) if nodes.dotted(target) == name]
        called = nodes.dotted(made[0].func) if len(made) == 1 and isinstance(made[0], cst.Call) else None
        classes = [one for one in file.body if isinstance(one, cst.ClassDef) and one.name.value == called]
        methods = [one for cls in classes for one in cls.body.body if isinstance(one, cst.FunctionDef)]
        return next((one for one in methods if one.name.value == "__init__"), None)

    def used_in_turn(self, path: str) -> set[str]:
        """The attributes of the object that is being made which a method of it uses."""
        owner, _, method = path.rpartition(".")
        cls = self.scope.rpartition(".")[0]
        methods = self.script.methods(cls) if owner == "self" else {}
        return used_of_object(cls, methods, f"{cls}.{method}") if f"{cls}.{method}" in methods else set()


def _misses(place: Place, taken: str) -> Unsupported:
    """Declines an example that training would then miss."""
    return Unsupported("MIG402", f"an example for {place.name} would take from {taken} what training then misses")


def _made_empty(constructor: cst.FunctionDef) -> set[str]:
    """The attributes that a constructor makes empty, `self.states, self.actions = [], []`, and mentions no more."""
    mentioned = Counter(nodes.dotted(one) for one in every(constructor.body, cst.Attribute))
    empty = {nodes.code(target) for target, value in usage.bindings(constructor.body) if _is_empty(value)}
    return {path for path in empty if mentioned[path] <= 1}


def _is_empty(value: Expr) -> bool:
    """Whether a list, a dict or a queue is made without elements, or of None alone: `[None] * capacity`."""
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        return _is_empty(value.left) or _is_empty(value.right)
    if isinstance(value, cst.List | cst.Dict):
        return all(isinstance(one, cst.Element) and nodes.is_literal(one.value, None) for one in value.elements)
    name = (nodes.dotted(value.func) or "").rpartition(".")[2] if isinstance(value, cst.Call) else ""
    given = [arg for arg in value.args if arg.keyword is None] if isinstance(value, cst.Call) else []
    return name == "defaultdict" or (name in ("list", "dict", "deque") and not given)


def _changes_itself(method: cst.FunctionDef) -> bool:
    """Whether a method sets attributes of its object, or moves an iterator on."""
    moves = any(nodes.dotted(call.func) == "next" for call in usage.calls(method.body))
    return moves or bool(usage.attributes_set(method.body))


class _Afresh(cst.CSTTransformer):
    def __init__(self, scope: TakenExamples) -> None:
        super().__init__()
        self.scope = scope

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        if isinstance(func, cst.Attribute) and func.attr.value == "requires_grad_":
            return func.value  # an example needs no gradient
        if nodes.dotted(updated_node.func) != "next" or len(updated_node.args) != 1:
            return updated_node
        given = updated_node.args[0].value
        made = self.scope.stands_for_now(given.value) if isinstance(given, cst.Name) else None
        if not isinstance(made, cst.Call):
            return updated_node
        if nodes.dotted(made.func) == "iter" and len(made.args) == 1:
            return nodes.call(FIRST, made.args[0].value)
        generator = isinstance(self.scope.kind_of(made.func), Function)
        return nodes.call("next", made) if generator else updated_node

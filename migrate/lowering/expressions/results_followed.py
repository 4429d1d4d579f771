"""What calls of the script's own functions stand for, as the text tells: `memory.sample(32)[4]` is the fifth element
of what the method returns."""

from __future__ import annotations

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, Instance
from migrate.lowering.initial.attributes_followed import Followed, attribute_given
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_FARTHEST = 8  # names that are followed


def part_of_result(scope: Scope, node: cst.Subscript) -> tuple[FunctionFacts, Expr] | None:
    """The function that `f(x)[4]` calls, and the element of the tuple that it returns, in terms of its own variables;
    None where it does not return one tuple."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    number = nodes.literal(index.value) if isinstance(index, cst.Index) else None
    if not isinstance(node.value, cst.Call) or isinstance(number, bool) or not isinstance(number, int):
        return None
    facts = function_called(scope, node.value)
    results = [one.value for one in usage.returns(facts.node.body)] if facts is not None else []
    if facts is None or len(results) != 1 or not isinstance(results[0], cst.Tuple):
        return None
    elements = nodes.elements(results[0])
    return (facts, elements[number]) if number < len(elements) else None


def function_called(scope: Scope, call: cst.Call) -> FunctionFacts | None:
    """The function of the script's own that is called, or the method of an object of its own classes."""
    itself = nodes.dotted(call.func) == "self"
    kind = (scope.own_method_of("self.__call__") if itself else None) or scope.kind_of(call.func)
    if isinstance(kind, Function | Instance):
        return scope.script.functions.get(kind.name if isinstance(kind, Function) else f"{kind.cls}.__call__")
    owner = scope.kind_of(call.func.value) if isinstance(call.func, cst.Attribute) else None
    if not isinstance(owner, Instance) or not isinstance(call.func, cst.Attribute):
        return None
    return scope.script.functions.get(f"{owner.cls}.{call.func.attr.value}")


def assigned_once(facts: FunctionFacts, name: str) -> Expr | None:
    """What a function gives a variable of its own, where it does so in one statement."""
    if usage.stores(facts.node.body).count(name) != 1:
        return None
    for assign in every(facts.node.body, cst.Assign):
        if len(assign.targets) == 1 and nodes.dotted(assign.targets[0].target) == name:
            return assign.value
    return None


def result_from_outside(scope: Scope, node: cst.Subscript) -> Expr | None:
    """`memory.sample(32)[4]` in terms of the caller; None where more than the object and the arguments decides it."""
    found = part_of_result(scope, node)
    call = node.value
    if found is None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    facts, value = found
    given: dict[str, Expr] = {"self": call.func.value}
    if any(arg.star or arg.keyword for arg in call.args):
        return None
    given |= {name: arg.value for name, arg in zip(facts.parameter_names[-len(call.args) :], call.args, strict=False)}
    own = set(usage.stores(facts.node.body))
    held: dict[str, Expr] = {}
    value = nodes.visited(value, Followed(lambda name: _given_here(facts, name), held))
    if set(usage.attributes_of_self(value)) & usage.attributes_set(facts.node.body):
        return None  # outside there is none of what the method binds itself
    value = nodes.substituted(value, held)
    for _ in range(_FARTHEST):
        names = set(usage.loads(value)) & own
        values = {name: assigned_once(facts, name) for name in names}
        known = {name: one for name, one in values.items() if one is not None}
        if len(known) < len(names):
            return None
        if not names:
            return nodes.substituted(value, given)
        value = nodes.substituted(value, known)
    return None


def _given_here(facts: FunctionFacts, name: str) -> Expr | None:
    """What a method gives an attribute of its object, where it does so in one statement."""
    found = attribute_given({facts.qualname: facts}, name)
    return None if found is None else found[1]

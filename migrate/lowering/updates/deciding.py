"""Numbers that Python itself goes by: jit must know them, and compiles a step for each value of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Host, Items, Kind, Number, Tensor
from migrate.known.script import Script
from migrate.lowering.expressions.known_to_jit import numbers_in
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every

_OF_SHAPES = ("shape", "ndim", "size", "dtype")
_TESTS = (cst.If, cst.IfExp, cst.While, cst.Assert)
_BUILTINS = ("min", "max", "int", "float", "round", "bool", "range")  # which take the value of a number

Asked = Callable[[cst.CSTNode], Iterator[Expr]]  # the expressions in some code of which the value counts


def decides(
    body: Sequence[cst.CSTNode],
    name: str,
    arrays: AbstractSet[str] = frozenset(),
    asked: Asked | None = None,
    needed: AbstractSet[str] = frozenset(),
) -> bool:
    """Whether Python goes by a number in some statements, or by what they make of it: in a test, or in `min(1, n / 9)`.
    `arrays`: names of what jax computes, whatever it is made of; `asked`: the expressions of which the value counts;
    `needed`: names of which it does."""
    made = {name}
    while True:
        more = {bound for one in _bindings(body) if made & _valued(one.value) for bound in usage.stores(one)}
        if more - arrays <= made:
            break
        made |= more - arrays
    valued = {loaded for one in body for part in (asked or _asked)(one) for loaded in _valued(part)}
    return bool(made & (valued | needed))


@remembered
def _valued(node: cst.CSTNode) -> frozenset[str]:
    """The names in an expression of which more counts than the shape, which jit knows: a number has none."""
    loaded = Counter(usage.loads(node))
    for one in every(node, cst.Attribute):
        if one.attr.value in _OF_SHAPES:
            loaded -= Counter(usage.loads(one.value))
    for call in usage.calls(node):
        if nodes.dotted(call.func) == "len" and len(call.args) == 1 and isinstance(call.args[0].value, cst.Name):
            loaded -= Counter([call.args[0].value.value])
    return frozenset(loaded)


def decided_by(facts: FunctionFacts, script: Script) -> set[str]:
    """The parameters that a function goes by so."""
    arrays = _arrays(script, facts)
    return {name for name in facts.parameter_names if decides([facts.node.body], name, arrays, needed=facts.needed)}


def decides_in_calls(script: Script, scope: str, path: str) -> bool:
    """Whether Python goes by a number of a scope, or by an attribute, in a function that jit traces and that is given
    it there."""
    waiting, seen = [(scope, path)], set[tuple[str, str]]()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for facts in script.functions.values():
            sites = [site for site in facts.found_calls if site.scope == one[0]]
            given = [name for site in sites for name, node in site.bound.items() if one[1] in numbers_in(node)]
            given = given if facts.traced else []
            if given and decided_by(facts, script) & set(given):
                return True
            of_module = [name for scope, path, name in sorted(facts.given_paths) if (scope, path) == one]
            arrays = _arrays(script, facts) if of_module else set()
            if any(
                decides([facts.node.body], name, arrays, _asks_of(facts.params.get(name)), facts.needed)
                for name in of_module
            ):
                return True
            waiting += [(facts.qualname, param) for param in (*given, *of_module)]
    return False


def differing(scope: Scope) -> set[str]:
    """The names, and attributes of `self`, that differ from turn to turn of the loops around."""
    around = [block.statements[block.index] for block in scope.blocks]
    turns = [name for one in around if isinstance(one, cst.For) for name in usage.target_names(one.target)]
    cyclic = [one for block in scope.blocks if block.cyclic for one in block.statements]
    attributes = (f"self.{name}" for one in cyclic for name in usage.attributes_set(one))
    return {*turns, *usage.stores(cyclic), *attributes}


def computed_alike(scope: Scope, name: str) -> bool:
    """Whether a name gets the same number in each turn of the loops around: `n = k + 1`, where k stays as it is, or
    `n = len(words)`, where nothing there is done to those."""
    cyclic = [one for block in scope.blocks if block.cyclic for one in block.statements]
    bound = [one.value for one in every(cst.Module(cyclic), cst.Assign) if name in usage.stores(one)]
    if len(set(map(nodes.code, bound))) != 1 or usage.stores(cyclic).count(name) != len(bound):
        return False
    changed = {nodes.dotted(one.value) for each in cyclic for one in usage.methods_called(each)}
    plain = all(_is_length(call) and nodes.dotted(call.args[0].value) not in changed for call in usage.calls(bound[0]))
    number = is_reckoned(bound[0]) or (isinstance(bound[0], cst.Call) and _is_length(bound[0]))
    return number and plain and not differing(scope) & set(usage.loads(bound[0]))


def tests_of_numbers(scope: Scope, statement: cst.CSTNode, earlier: Sequence[cst.CSTNode]) -> dict[str, Expr]:
    """The tests in a statement that ask for nothing but numbers which differ from turn to turn, under names for their
    answers: `step > 100`. `earlier`: what runs on the way to the statement; numbers that it binds are none."""
    closed = (cst.FunctionDef, cst.Lambda, cst.BaseComp)
    tests = [one.test for one in every(statement, (cst.If, cst.IfExp), closed=closed)]
    if not tests:
        return {}
    found: dict[str, Expr] = {}
    bound, changing = set(usage.stores([*earlier, statement])), differing(scope)
    for test in tests:
        names = list(dict.fromkeys(usage.loads(test)))
        plain = all(isinstance(scope.kind_of_name(name), Number) and name not in bound for name in names)
        if plain and changing & set(names) and all(map(_has_value, every(test, cst.BaseExpression))):
            operators = [type(one.operator) for one in every(test, cst.ComparisonTarget)]
            words = [_WORDS[operator] for operator in operators if operator in _WORDS]
            wanted = f"{names[0]}_{words[0] if len(words) == 1 else 'asked'}"
            found[usage.unused_name(wanted, found)] = test
    return found


def elements_taken(
    scope: Scope, statement: cst.CSTNode, earlier: Sequence[cst.CSTNode], taken: Mapping[str, Expr]
) -> dict[str, Expr]:
    """What a statement takes of lists of the host by a number, `batches[step]`, under names for it: jit knows no number
    that it is given. `earlier`: as for `tests_of_numbers`; `taken`: what is taken by now."""
    closed = (cst.FunctionDef, cst.Lambda)
    bound = set(usage.stores([*earlier, statement]))
    bound |= {name for each in every(statement, cst.CompFor) for name in usage.target_names(each.target)}
    called = {one for call in usage.calls(statement) for one in _way_to(call.func)}
    found: dict[str, Expr] = {}
    inside = {part for one in taken.values() for part in every(one, cst.Subscript)}  # what has been taken
    for part in every(statement, cst.Subscript, closed=closed):
        name, index = nodes.dotted(part.value), part.slice[0].slice
        if not name or len(part.slice) != 1 or not isinstance(index, cst.Index):
            continue
        if not _holds_data(scope, part.value, part in called):
            continue
        names = set(usage.loads(index.value))
        pure = (*PURE, cst.BinaryOperation, cst.Subscript)
        plain = part not in inside and all(isinstance(one, pure) for one in every(index.value, cst.BaseExpression))
        numbers = all(isinstance(scope.kind_of_name(each), Number | Items) for each in names)
        if names and plain and numbers and not {name.partition(".")[0], *names} & bound:
            found[usage.unused_name(f"{name.rpartition('.')[2]}_now", {*found, *taken})] = part
            inside |= set(every(index.value, cst.Subscript))
    return found


def _way_to(node: Expr) -> Iterator[Expr]:
    """The expressions that an attribute, or an element, is one of: `x[0].fc`, `x[0]` and `x`."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        yield node
        node = node.value


def _holds_data(scope: Scope, node: Expr, called: bool) -> bool:
    """Whether an expression is a list of tensors or numbers, a batch of several, or surely nothing that JAX knows.
    `called`: whether what it holds is called, or has a method that is."""
    kind = scope.kind_of(node)
    if isinstance(kind, Host) and kind.what == "batch":
        return True
    if type(kind) is Kind:
        return not called
    return isinstance(kind, Items) and isinstance(kind.joined(), Tensor | Number | Items)


def _has_value(node: Expr) -> bool:
    """Whether an expression of numbers surely has a value, as far as it itself goes."""
    if isinstance(node, cst.BinaryOperation):
        divisor = nodes.literal(node.right) if isinstance(node.operator, _DIVIDING) else 1
        return isinstance(node.operator, _RECKONING) and divisor not in (0, ...)
    return isinstance(node, PURE)


_DIVIDING = (cst.Divide, cst.FloorDivide, cst.Modulo)
_RECKONING = (*_DIVIDING, cst.Add, cst.Subtract, cst.Multiply)
# What surely has a value, whatever the numbers are: no division, no call.
PURE = (cst.Name, cst.Integer, cst.Float, cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)
_WORDS = {
    cst.GreaterThan: "above", cst.GreaterThanEqual: "from", cst.LessThan: "below", cst.LessThanEqual: "up_to",
    cst.Equal: "is_it", cst.NotEqual: "is_not",
}  # fmt: skip


def _arrays(script: Script, facts: FunctionFacts) -> set[str]:
    return {name for name, kind in script.finals.get(facts.qualname, {}).items() if isinstance(kind, Tensor)}


def _bindings(body: Sequence[cst.CSTNode]) -> Iterator[cst.Assign | cst.AugAssign]:
    for one in body:
        yield from every(one, (cst.Assign, cst.AugAssign))


def is_reckoned(node: cst.CSTNode | None) -> bool:
    """Whether an expression without tensors surely is a number: one that is reckoned with others."""
    if isinstance(node, cst.BinaryOperation):
        texts = any(isinstance(one, cst.BaseString | cst.BaseList) for one in (node.left, node.right))
        return not texts and (is_reckoned(node.left) or is_reckoned(node.right))
    if isinstance(node, cst.IfExp):
        return is_reckoned(node.body) and is_reckoned(node.orelse)
    return isinstance(node, cst.BaseNumber) or (isinstance(node, cst.Call) and _takes_numbers(node))


def _is_length(call: cst.Call) -> bool:
    return nodes.dotted(call.func) == "len" and len(call.args) == 1 and nodes.dotted(call.args[0].value) is not None


def _takes_numbers(call: cst.Call) -> bool:
    return (nodes.dotted(call.func) or "").partition(".")[0] in (*_BUILTINS, "math")


def _asks_of(kind: Kind | None) -> Asked:
    """The expressions in a method of a module of which the value of a parameter counts: what it is given may as well be
    an array, which it tests for None."""
    return _asked_of_numbers if isinstance(kind, Number) else _counted


def _asked_of_numbers(node: cst.CSTNode) -> Iterator[Expr]:
    return (one for one in _asked(node) if asked_for_none(one) is None)


def _counted(node: cst.CSTNode) -> Iterator[Expr]:
    """What Python counts by: what a method of a module is given may as well be an array, which it tests for None."""
    for call in usage.calls(node):
        if nodes.dotted(call.func) in ("int", "range", "round"):
            yield from (arg.value for arg in call.args)


def _asked(node: cst.CSTNode) -> Iterator[Expr]:
    """The expressions of which Python takes the value."""
    for one in every(node, (*_TESTS, cst.BooleanOperation, cst.UnaryOperation, cst.Call)):
        if isinstance(one, cst.BooleanOperation):
            yield one.left
        elif isinstance(one, cst.UnaryOperation):
            if isinstance(one.operator, cst.Not):
                yield one.expression
        elif not isinstance(one, cst.Call):
            yield one.test
        elif _takes_numbers(one):
            yield from (arg.value for arg in one.args)

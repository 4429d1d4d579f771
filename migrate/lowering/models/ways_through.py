"""The ways that calls take through a model, where what they give it says so: `if task == "a":`, `self.heads[task]`,
`for i in range(depth):`, in its forward pass or in what that hands the argument on to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ListNode
from migrate.known.facts import FunctionFacts, Way
from migrate.known.kinds import Tensor
from migrate.known.script import classes_in
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.initial.given_values import values_given
from migrate.lowering.initial.method_examples import MethodUses
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.walking import every

_Decided = Callable[[Expr], bool | None]

_MOST = 256  # ways that are looked at


@dataclass(frozen=True)
class Pass:
    """A forward pass, or a method, that a call of a model runs. `names`: its parameters -> those of the model that they
    are; no others."""

    facts: FunctionFacts
    names: Mapping[str, str]

    @property
    def cls(self) -> str:
        return self.facts.qualname.rpartition(".")[0]

    @property
    def statements(self) -> list[Statement]:
        return suites.suite_of(self.facts.node.body.body)


@dataclass(frozen=True)
class Row:
    """Parts of which a pass takes one, `self.heads[task]`, or as many as it is told, `range(depth)`."""

    cls: str
    attribute: str
    counted: bool


def ways_of(scope: MethodUses, passes: Sequence[Pass], args: Sequence[cst.Arg]) -> dict[Way, frozenset[str]]:
    """The ways that a call may take, with the parts with weights on each; none where all go the same. Raises
    Unsupported where what tells it is not known. `passes`: those of `passes_of`."""
    asked, given = _deciding(scope, passes), _given(passes[0].facts, args)
    values = {name: _values(scope, name, given[name], told) for name, told in asked.items() if name in given}
    known = {name: found for name, found in values.items() if found}
    if not known:
        return {}
    ways = list(itertools.islice(itertools.product(*known.values()), _MOST + 1))
    if len(ways) > _MOST:
        raise Unsupported("MIG402", f"{', '.join(known)}: more than {_MOST} ways through the layers of a model")
    each_told = [dict(zip(known, way, strict=True)) for way in ways]
    return {tuple(told.items()): frozenset(_parts(scope, passes[0], told)) for told in each_told}


def brought_in(scope: MethodUses, passes: Sequence[Pass]) -> dict[str, set[str]]:
    """The parts with weights that a forward pass, or what it hands arguments on to, goes through where an argument is
    not None, by the parameters: `if label is not None: h = h + self.embedding(label)`."""
    found: dict[str, set[str]] = {}
    for each in passes:
        for test, sides in _choices(each.facts.node):
            asked = asked_for_none(test)
            if asked is not None and asked[0] in each.names:
                there, missing = (_used(scope, each, side) for side in (sides[::-1] if asked[1] else sides))
                found.setdefault(each.names[asked[0]], set()).update(there - missing)
    return {name: parts for name, parts in found.items() if parts}


def refuse_unpacked(scope: MethodUses, passes: Sequence[Pass], args: Sequence[cst.Arg]) -> None:
    """Raises Unsupported where a call unpacks arguments, and some of them tell through which parts it goes."""
    if not any(arg.star for arg in args):
        return
    asked = [*brought_in(scope, passes), *_deciding(scope, passes)]
    given = argument_names(args, passes[0].facts.parameter_names[1:])
    told = [name for name in dict.fromkeys(asked) if name not in given]
    if told:
        unpacked = ", ".join(f"{arg.star}{nodes.code(arg.value)}" for arg in args if arg.star)
        said = f"`{unpacked}`: whether it gives {' and '.join(told)}, which tells through which layers the call goes"
        raise Unsupported("MIG402", said)


def unpacked(args: Sequence[cst.Arg], definitions: Mapping[str, Expr]) -> list[cst.Arg]:
    """The arguments of a call, with those of a tuple or a dict that it unpacks one by one, where that is written."""
    found: list[cst.Arg] = []
    for arg in args:
        value = arg.value
        match definitions.get(value.value, value) if isinstance(value, cst.Name) and arg.star else value:
            case cst.Tuple() | cst.List() as row if arg.star == "*" and all(
                isinstance(one, cst.Element) for one in row.elements
            ):
                found += nodes.arguments(nodes.elements(row))
            case cst.Dict(elements=elements) if arg.star == "**":
                pairs = [one for one in elements if isinstance(one, cst.DictElement)]
                keys = [key for one in pairs if isinstance(key := nodes.literal(one.key), str)]
                named = {key: one.value for key, one in zip(keys, pairs, strict=False)}
                found += nodes.arguments([], named) if len(named) == len(elements) else [arg]
            case _:
                found.append(arg)
    return found


def passes_of(scope: MethodUses, forward: FunctionFacts) -> list[Pass]:
    """A forward pass, the first of them, and what it hands its arguments on to."""
    waiting = [Pass(forward, {name: name for name in _kept(forward)})]
    found: dict[tuple[str, frozenset[tuple[str, str]]], Pass] = {}
    while waiting:
        each = waiting.pop(0)
        known = each.facts.qualname, frozenset(each.names.items())
        if known not in found:
            found[known] = each
            waiting += [taker for call in usage.calls(each.facts.node.body) for taker in _takers(scope, each, call)]
    return list(found.values())


def _kept(facts: FunctionFacts) -> list[str]:
    """The parameters that stay what they are given."""
    changed = set(usage.stores(facts.node.body))
    return [name for name in facts.parameter_names[1:] if name not in changed]


def _takers(scope: MethodUses, each: Pass, call: cst.Call) -> list[Pass]:
    """What a call hands arguments on to: a method of the same class, or a part of one, of a row, of each in a loop."""
    functions = scope.script.functions
    path = nodes.dotted(call.func) or ""
    method = functions.get(f"{each.cls}.{path.removeprefix('self.')}") if path.startswith("self.") else None
    found = [method] if method is not None else _forwards_called(scope, each, call)
    return [Pass(taker, names) for taker in found if (names := _handed(each, taker, call))]


def _handed(each: Pass, taker: FunctionFacts, call: cst.Call) -> dict[str, str]:
    kept = _kept(taker)
    bound = zip(call.args, argument_names(call.args, taker.parameter_names[1:]), strict=True)
    outer = {inner: each.names.get(nodes.dotted(arg.value) or "", "") for arg, inner in bound if inner in kept}
    return {inner: name for inner, name in outer.items() if name}


def _forwards_called(scope: MethodUses, each: Pass, call: cst.Call) -> list[FunctionFacts]:
    part = call.func.value if isinstance(call.func, cst.Subscript) else call.func
    if isinstance(part, cst.Name):
        loops = every(each.facts.node.body, (cst.For, cst.CompFor))
        part = next((loop.iter for loop in loops if part.value in usage.target_names(loop.target)), part)
    facts = scope.script.classes.get(each.cls)
    held = facts.children.get((nodes.dotted(part) or "").removeprefix("self.")) if facts is not None else None
    classes = classes_in(held) if held is not None else []
    found = (scope.script.functions.get(f"{cls}.forward") for cls in classes)
    return [one for one in found if one is not None]


def _used(scope: MethodUses, each: Pass, code: cst.CSTNode) -> set[str]:
    """The parts with weights that some code of a pass goes through, whatever it is given."""
    weighted = scope.weighted_parts(each.cls)
    read = set(usage.attributes_of_self(code)) if weighted else set()
    found = weighted & read.union(*(scope.attributes_used(each.cls, name) for name in read))
    return {f"{each.cls}.{part}" for part in found}


def _choices(function: cst.FunctionDef) -> Iterator[tuple[Expr, tuple[cst.CSTNode, cst.CSTNode]]]:
    """The tests of a function with their two sides: behind one that ends it the other one goes on."""
    for choice in every(function.body, cst.IfExp):
        yield choice.test, (choice.body, choice.orelse)
    for block in every(function, cst.IndentedBlock):
        statements = suites.suite_of(block.body)
        for number, branch in enumerate(statements):
            while isinstance(branch, cst.If):
                body, orelse = suites.sides(branch)
                following = statements[number + 1 :]
                first = body if suites.exits(body) else [*body, *following]
                second = orelse if orelse and suites.exits(orelse) else [*orelse, *following]
                yield branch.test, (cst.Module(first), cst.Module(second))
                branch = branch.orelse


def _deciding(scope: MethodUses, passes: Sequence[Pass]) -> dict[str, list[Expr | Row]]:
    """The parameters of a model that tell which parts a call goes through, with the tests that ask for them, in the
    names of the model's, and the rows that they are for."""
    found: dict[str, list[Expr | Row]] = {}
    for each in passes:
        anyway = _used(scope, each, cst.Module(list(_anyway(each.statements))))
        for test, sides in _choices(each.facts.node):
            names = _tested(test)
            first, second = (_used(scope, each, side) - anyway for side in sides)
            if names and names <= each.names.keys() and first != second:
                told = nodes.substituted(test, {inner: nodes.name(each.names[inner]) for inner in names})
                for name in names:
                    found.setdefault(each.names[name], []).append(told)
        for row, name in _numbered(scope, each, each.statements):
            found.setdefault(name, []).append(row)
    return found


def _anyway(statements: Sequence[Statement]) -> Iterator[Statement]:
    """What runs whatever tests say: the statements without branches, up to one that may end them."""
    for statement in statements:
        if isinstance(statement, cst.If):
            if any(every(statement, (cst.Return, cst.Raise))):
                return
        elif isinstance(statement, cst.SimpleStatementLine):
            yield nodes.visited(statement, _Sides(lambda _: None, both=False))


def _values(scope: MethodUses, name: str, given: Expr, told: Sequence[Expr | Row]) -> list[str]:
    """What an argument may be, as far as that matters; none where it is the same all the time."""
    if isinstance(scope.kind_of(given), Tensor):
        return []
    found = values_given(scope, given)
    if found:
        return [nodes.code(one) for one in found if not nodes.is_literal(one, None)]
    rows = [row for row in told if isinstance(row, Row) and not row.counted]
    if rows:
        return list(dict.fromkeys(key for row in rows for key in keys_of_row(scope, row.cls, row.attribute)))
    if found is not None:
        return []
    return list(dict.fromkeys(value for each in told for value in _tried(scope, name, each)))


def _tried(scope: MethodUses, name: str, told: Expr | Row) -> Iterator[str]:
    """Values of an argument that go both ways of a test, or through a whole row. Raises Unsupported where none are
    known."""
    match told:
        case Row():
            keys = keys_of_row(scope, told.cls, told.attribute)
            whole = keys[0].removeprefix("*range(").removesuffix(")") if keys and keys[0].startswith("*") else ""
            yield whole or str(len(keys))
        case cst.Name(value=asked) if asked == name:
            yield from ("True", "False")
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield from _tried(scope, name, inner)
        case cst.BooleanOperation(left=left, right=right):
            for side in (left, right):
                if name in usage.loads(side):
                    yield from _tried(scope, name, side)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(comparator=right)]):
            other = nodes.literal(right if nodes.dotted(left) == name else left)
            for one in other if isinstance(other, tuple) else (other,):
                yield from _around(name, told, one)
        case _:
            raise _untold(name, told)


def _around(name: str, told: Expr, compared: object) -> list[str]:
    """A value that a test compares an argument to, and others."""
    if isinstance(compared, bool):
        return ["True", "False"]
    if isinstance(compared, int | float):
        return [repr(value) for value in (compared, compared - 1, compared + 1)]
    if isinstance(compared, str):
        return [f'"{compared}"', '""'] if compared.isprintable() and not {*compared} & {'"', "\\"} else [repr(compared)]
    raise _untold(name, told)


def _untold(name: str, told: Expr) -> Unsupported:
    ways = f"which layers a call goes through, as `{nodes.code(told)}` says"
    return Unsupported("MIG402", f"{ways}: what `{name}` is given is not known here")


def _parts(scope: MethodUses, each: Pass, told: Mapping[str, str]) -> set[str]:
    """The parts with weights that a pass goes through where the model is given some literals."""
    values = {
        inner: nodes.literal(nodes.expression(told[outer]))
        for inner, outer in each.names.items()
        if _is_literal(told.get(outer))
    }
    sides = _Sides(lambda test: _holds(test, values))
    code = [nodes.visited(one, sides) for one in _taken(each.statements, sides.holds)]
    takers = [taker for one in code for call in usage.calls(one) for taker in _takers(scope, each, call)]
    found = set[str]().union(*(_parts(scope, taker, told) for taker in takers))
    weighted, told_more = scope.weighted_parts(each.cls), {taker.facts.qualname for taker in takers}
    read = {name for one in code for name in usage.attributes_of_self(one)}
    whole = [scope.attributes_used(each.cls, name) for name in read if f"{each.cls}.{name}" not in told_more]
    found |= {f"{each.cls}.{part}" for part in weighted & read.union(*whole)}
    for row, name in _numbered(scope, each, code):
        value = nodes.literal(nodes.expression(told[name])) if _is_literal(told.get(name)) else ...
        keys = range(value) if row.counted and isinstance(value, int) else [value]
        found |= {f"{row.cls}.{row.attribute}[{told.get(name) if key is ... else key!r}]" for key in keys}
    return found


def _is_literal(text: str | None) -> TypeGuard[str]:
    return text is not None and not text.startswith("*") and nodes.literal(nodes.expression(text)) is not ...


def _holds(test: Expr, values: Mapping[str, object]) -> bool | None:
    """Whether a test holds; None where it asks for more than literals."""
    names = _tested(test)
    if not names or not names <= values.keys():
        return None
    try:
        return bool(eval(nodes.code(test), {}, {name: values[name] for name in names}))  # no calls, no attributes
    except TypeError:
        return None


def _taken(statements: Sequence[Statement], holds: _Decided) -> list[cst.CSTNode]:
    """The code that runs, with both sides of tests that are not decided; up to what ends it."""
    found: list[cst.CSTNode] = []
    for statement in statements:
        inner: list[list[Statement]] = []
        match statement:
            case cst.If(test=test):
                found.append(test)
                sides, decided = suites.sides(statement), holds(test)
                inner = list(sides) if decided is None else [sides[0 if decided else 1]]
            case cst.For() | cst.While() | cst.With() | cst.Try():
                found += suites.evaluated(statement)
                inner = [suites.suite_of(one.body) for one in statement.children if isinstance(one, cst.BaseSuite)]
                rest = [
                    one.body
                    for one in statement.children
                    if isinstance(one, cst.Else | cst.Finally | cst.ExceptHandler)
                ]
                inner += [suites.suite_of(one.body) for one in rest]
            case _:
                found.append(statement)
        for side in inner:
            found += _taken(side, holds)
        if suites.exits([statement]) or (inner and isinstance(statement, cst.If) and all(map(_ends, inner))):
            break
    return found


def _ends(side: Sequence[Statement]) -> bool:
    return suites.exits(side)


class _Sides(cst.CSTTransformer):
    """Conditional expressions as the side that is taken, where that is decided. `both`: of others both sides, else
    none."""

    def __init__(self, holds: _Decided, both: bool = True) -> None:
        super().__init__()
        self.holds, self.both = holds, both

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        decided = self.holds(updated_node.test)
        if decided is None:
            return updated_node if self.both else updated_node.test
        return updated_node.body if decided else updated_node.orelse


def _tested(test: Expr) -> set[str]:
    """The names that a test asks for, of those that ask for nothing else."""
    plain = not usage.calls(test) and not usage.attributes(test) and asked_for_none(test) is None
    return set(usage.loads(test)) if plain else set()


def _numbered(scope: MethodUses, each: Pass, code: Iterable[cst.CSTNode]) -> Iterator[tuple[Row, str]]:
    """The rows of parts that some code of a pass takes parts of, and by which parameter of the model."""
    loops = [(loop.target, loop.iter) for loop in every(each.facts.node.body, (cst.For, cst.CompFor))]
    counted = {name: over for target, over in loops for name in usage.target_names(target)}
    for part in (one for node in code for one in every(node, cst.Subscript)):
        owner = nodes.dotted(part.value) or ""
        attribute = owner.removeprefix("self.")
        if len(part.slice) != 1 or attribute == owner or not _used(scope, each, part.value):
            continue
        match part.slice[0].slice:
            case cst.Index(value=index):
                name = nodes.code(index)
                times = _times(counted[name]) if name in counted else name
                if times in each.names:
                    yield Row(each.cls, attribute, name in counted), each.names[times]
            case cst.Slice(lower=None, upper=cst.Name(value=name), step=None) if name in each.names:
                yield Row(each.cls, attribute, counted=True), each.names[name]


def _times(over: Expr) -> str:
    """The name of how many turns a loop over `range(depth)` takes; "" of other loops."""
    counts = isinstance(over, cst.Call) and nodes.dotted(over.func) == "range" and len(over.args) == 1
    return (nodes.dotted(over.args[0].value) or "") if isinstance(over, cst.Call) and counts else ""


def keys_of_row(scope: MethodUses, cls: str, attribute: str) -> list[str]:
    """The keys of a row of parts as a program writes them; where it is not known how many there are, what goes
    through them, with a star."""
    facts = scope.script.classes[cls]
    row = facts.children.get(attribute)
    if not isinstance(row, ListNode) or row.named or (row.dynamic and row.keys):
        return []
    if row.dynamic:
        return [f"*range(len(model.{facts.renamed.get(attribute, attribute)}))"]
    return [f'"{key}"' for key in row.keys] or [str(number) for number in range(len(row.children))]


def _given(forward: FunctionFacts, args: Sequence[cst.Arg]) -> dict[str, Expr]:
    """What a call gives each parameter, or its default."""
    params = forward.node.params
    given = {each.name.value: each.default for each in [*params.params, *params.kwonly_params] if each.default}
    names = argument_names(args, forward.parameter_names[1:])
    return given | {name: arg.value for name, arg in zip(names, args, strict=True) if name}


def given_to(forward: FunctionFacts, args: Sequence[cst.Arg]) -> set[str]:
    """The parameters that are something in a call, as far as it shows, and not None."""
    return {name for name, value in _given(forward, args).items() if not nodes.is_literal(value, None)}

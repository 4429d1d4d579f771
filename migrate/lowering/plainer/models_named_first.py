"""Models that a constructor makes to take them apart, each under a name of its own:

self.features = vgg16().features                          vgg16_model = vgg16()
                                                          self.features = vgg16_model.features

self.net = resnet18()                                     net = resnet18()
self.net = nn.Sequential(*list(self.net.children()))      self.net = nn.Sequential(*list(net.children()))

What is kept as a whole has no other name: `net.fc = nn.Linear(8, 2)` before `self.net = net` is one of `self.net`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.copied_input import Exchanging
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

ClassMade = Callable[[cst.Call], str]  # the class of which a call makes a module, "" of other calls
_LISTS = ("list", "tuple")


def with_models_named(
    init: cst.FunctionDef, made: ClassMade, positions: dict[cst.CSTNode, CodeRange]
) -> cst.FunctionDef:
    """Such a constructor; itself where there is nothing of the sort."""
    taken = {*usage.stores(init), *usage.loads(init), *(one.name.value for one in every(init.params, cst.Param))}
    body = _with_variables(suites.suite_of(init.body.body), made, taken, positions)
    result: list[Statement] = []
    for statement in body:
        calls = _taken_apart(statement, made) if isinstance(statement, cst.SimpleStatementLine) else []
        instead: dict[cst.CSTNode, Expr] = {}
        for call in calls:
            function = (nodes.dotted(call.func) or "").rpartition(".")[2]
            name = usage.unused_name(f"{function.lower()}_model", taken)
            taken.add(name)
            instead[call] = nodes.name(name)
            line = cst.SimpleStatementLine([cst.Assign([nodes.target(nodes.name(name))], call)])
            result.append(line.with_changes(leading_lines=statement.leading_lines if not result else ()))
            if statement in positions:
                for one in every(line, cst.CSTNode):
                    positions.setdefault(one, positions[statement])
        result.append(nodes.visited(statement, Exchanging(instead, positions)) if instead else statement)
    same = len(result) == len(suites.suite_of(init.body.body)) and all(
        one is other for one, other in zip(result, suites.suite_of(init.body.body), strict=True)
    )
    return init if same else init.with_changes(body=suites.block_of(init.body, result))


def with_wholes_kept(
    init: cst.FunctionDef, made: ClassMade, positions: dict[cst.CSTNode, CodeRange]
) -> cst.FunctionDef:
    """A constructor where a model that is changed under a name, and then kept, is an attribute from the start; itself
    where there is none."""
    body = suites.suite_of(init.body.body)
    result = _with_attributes(body, made, positions)
    return init if len(result) == len(body) else init.with_changes(body=suites.block_of(init.body, result))


def _taken_apart(statement: Statement, made: ClassMade) -> list[cst.Call]:
    """The calls of a statement that make a model of which it takes a part at once."""
    small = suites.alone(statement)
    named = isinstance(small, cst.Assign) and all(isinstance(one.target, cst.Name) for one in small.targets)
    owners = [one.value for one in every(statement, (cst.Attribute, cst.Subscript))]
    for call in every(statement, cst.Call):
        if nodes.dotted(call.func) in _LISTS and len(call.args) == 1:
            owners.append(call.args[0].value)
    found = [one for one in owners if isinstance(one, cst.Call) and _is_taken(statement, one) and made(one)]
    whole = isinstance(small, cst.Assign) and nodes.root(small.value) in found
    return [] if named and whole else list(dict.fromkeys(found))


_PLACING = frozenset({"to", "cuda", "cpu", "eval", "train", "float", "half", "double", "requires_grad_", "apply"})


def _is_taken(statement: Statement, call: cst.Call) -> bool:
    """Whether a statement asks what a call makes for a part, and not to be somewhere or in a mode."""
    methods = [one.func for one in every(statement, cst.Call)]
    return not any(
        isinstance(one, cst.Attribute) and one.value is call and one.attr.value in _PLACING for one in methods
    )


def _with_variables(
    body: Sequence[Statement], made: ClassMade, taken: set[str], positions: dict[cst.CSTNode, CodeRange]
) -> list[Statement]:
    """Statements where an attribute that is only kept to be taken apart, and then is bound again, is a variable."""
    result = list(body)
    for number, statement in enumerate(body):
        path = _attribute_set(statement)
        small = suites.alone(statement)
        call = nodes.root(small.value) if isinstance(small, cst.Assign) else None
        if not path or not isinstance(call, cst.Call) or not made(call):
            continue
        again = next((n for n, one in enumerate(body) if n > number and _attribute_set(one) == path), None)
        attribute = path.removeprefix("self.")
        times = sum(attribute in usage.attributes_set(one) for one in body)
        if again is None or times != 2 or not isinstance(small, cst.Assign) or not _reads(body[again], path):
            continue
        name = usage.unused_name(attribute, taken)
        taken.add(name)
        for n in range(number, again + 1):
            inside = [one for one in every(result[n], cst.Attribute) if nodes.dotted(one) == path]
            if n == again:
                inside = inside[1:]  # its target
            instead: dict[cst.CSTNode, Expr] = {one: nodes.name(name) for one in inside}
            result[n] = nodes.visited(result[n], Exchanging(instead, positions)) if instead else result[n]
    return result


def _with_attributes(
    body: Sequence[Statement], made: ClassMade, positions: dict[cst.CSTNode, CodeRange]
) -> list[Statement]:
    """Statements where a model that is changed under a name, and then kept as an attribute, is that from the start."""
    result = list(body)
    for number, statement in enumerate(body):
        name = _model_named(statement, made)
        kept = [n for n, one in enumerate(body) if _attribute_set(one) and nodes.dotted(_value(one)) == name]
        if not name or len(kept) != 1 or kept[0] < number or usage.stores(body).count(name) != 1:
            continue
        path, between = _attribute_set(body[kept[0]]), body[number + 1 : kept[0]]
        changed = any(_root_of_target(one) == name for one in between)
        again = sum(path.removeprefix("self.") in usage.attributes_set(one) for one in body) > 1
        early = any(path in usage.paths(one) or usage.attributes_set(one) for one in between)
        if not changed or again or early:
            continue
        result = [one if one is body[kept[0]] else _renamed(one, name, path, positions) for one in body]
        del result[kept[0]]
        return _with_attributes(result, made, positions)
    return result


def _model_named(statement: Statement, made: ClassMade) -> str:
    """The name of a model that a statement makes; "" of other statements."""
    small = suites.alone(statement)
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    call = small.value if isinstance(small, cst.Assign) else None
    return target.value if isinstance(target, cst.Name) and isinstance(call, cst.Call) and made(call) else ""


def _renamed(statement: Statement, name: str, path: str, positions: dict[cst.CSTNode, CodeRange]) -> Statement:
    """A statement with a path in the place of a name."""
    instead: dict[cst.CSTNode, Expr] = {one: nodes.expression(path) for one in by_itself(statement, name)}
    return nodes.visited(statement, Exchanging(instead, positions)) if instead else statement


def _value(statement: Statement) -> Expr:
    small = suites.alone(statement)
    assert isinstance(small, cst.Assign)
    return small.value


def _root_of_target(statement: Statement) -> str:
    """The name of the object of which a statement sets a part, `net` of `net.fc = ...`; "" of other statements."""
    small = suites.alone(statement)
    target = small.targets[0].target if isinstance(small, cst.Assign) else None
    root = nodes.root(target) if isinstance(target, cst.Attribute | cst.Subscript) else None
    return root.value if isinstance(root, cst.Name) else ""


def _attribute_set(statement: Statement) -> str:
    """`self.x` that a statement sets and does no more; "" of others."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return ""
    path = nodes.dotted(small.targets[0].target) or ""
    return path if path.startswith("self.") and path.count(".") == 1 else ""


def _reads(statement: Statement, path: str) -> bool:
    """Whether the value of an assignment is made of what an attribute is before it."""
    small = suites.alone(statement)
    return isinstance(small, cst.Assign) and path in usage.paths(small.value)

"""What a script changes while it trains: a jitted function that reads such a name, and is not given it, would go by its
first value for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every

_GROWING = frozenset(
    {"append", "extend", "insert", "pop", "popleft", "appendleft", "update", "clear", "add", "remove", "setdefault"}
)


def changing(module: cst.Module) -> frozenset[str]:
    """The names of a file's top level, and attributes of theirs ("config.beta"), that its training loops, or functions
    that run in them, bind again or change in place."""
    functions = {function.name.value: function for function in _functions(module.body)}
    loops = list(_loops(module.body))
    training = {name for name, function in functions.items() if _differentiates(function)}
    while True:
        more = {name for name, one in functions.items() if training & _called(one)} - training
        if not more:
            break
        training |= more
    loops = [loop for loop in loops if _differentiates(loop) or training & _called(loop)]
    running = set(training)
    waiting: list[cst.CSTNode] = [*loops, *(functions[name] for name in training)]
    while waiting:
        called = _called(waiting.pop()) & functions.keys() - running
        running |= called
        waiting += [functions[name] for name in called]
    found = {path for loop in loops for path in [*usage.stores(loop), *changed_in_place(loop)]}
    for name in running:
        found |= _of_function(functions[name])
    return frozenset(found)


def _functions(body: Iterable[cst.CSTNode]) -> Iterator[cst.FunctionDef]:
    for statement in body:
        if isinstance(statement, cst.FunctionDef):
            yield statement
        elif isinstance(statement, cst.ClassDef | cst.If):
            yield from _functions(suites.suite_of(statement.body.body))


def _loops(body: Iterable[cst.CSTNode]) -> Iterator[cst.For | cst.While]:
    for statement in body:
        if isinstance(statement, cst.For | cst.While):
            yield statement
        elif isinstance(statement, cst.If | cst.With | cst.Try):
            yield from _loops(suites.suite_of(statement.body.body))


def _differentiates(node: cst.CSTNode) -> bool:
    return "backward" in _called(node)


def _called(node: cst.CSTNode) -> set[str]:
    return {nodes.code(call.func).rpartition(".")[2] for call in usage.calls(node)}


def _of_function(function: cst.FunctionDef) -> set[str]:
    """What a function changes of what it does not bind itself."""
    shared = {item.name.value for found in every(function.body, cst.Global) for item in found.names}
    bound = {*usage.stores(function.body), *(p.name.value for p in function.params.params)} - shared
    outer = {path for path in changed_in_place(function.body) if path.partition(".")[0] not in bound}
    return outer | (shared & set(usage.stores(function.body)))


def changed_in_place(node: cst.CSTNode) -> set[str]:
    """What a node changes of what names hold: paths of `x[i] = y`, `config.beta = y`, `seen.append(y)`, `x.add_(y)`."""
    changed: list[cst.BaseExpression] = []
    for one in every(node, (cst.Call, cst.AssignTarget, cst.AugAssign)):
        if isinstance(one, cst.AssignTarget | cst.AugAssign):
            changed += [one.target] if isinstance(one.target, cst.Subscript | cst.Attribute) else []
        elif isinstance(one.func, cst.Attribute):
            method = one.func.attr.value
            changed += [one.func.value] if method in _GROWING or usage.is_in_place(method) else []
    return set(filter(None, map(_path, changed)))


def attributes_changed(modules: Iterable[cst.Module]) -> frozenset[str]:
    """The attributes that files change of objects other than their own: "beta" of `trainer.beta = 0.5`."""
    paths = [path.removeprefix("self.").split(".") for module in modules for path in changed_in_place(module)]
    return frozenset(name for path in paths for name in path[1:])


def _path(node: cst.BaseExpression) -> str | None:
    while isinstance(node, cst.Subscript):
        node = node.value
    return nodes.dotted(node)

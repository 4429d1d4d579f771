"""What a script changes while it trains: a jitted function that reads such a name, and is not given it, would go by its
first value for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    targets = [one.target for one in every(node, (cst.AssignTarget, cst.AugAssign))]
    changed = [one for one in targets if isinstance(one, cst.Subscript | cst.Attribute)]
    methods = [(one.attr.value, one.value) for one in usage.methods_called(node)]
    changed += [value for name, value in methods if name in _GROWING or usage.is_in_place(name)]
    return set(filter(None, map(_path, changed)))


def grown(node: cst.CSTNode) -> set[str]:
    """The paths of lists, sets and the like that a node puts something into, or takes something out of."""
    methods = usage.methods_called(node)
    return set(filter(None, (_path(one.value) for one in methods if one.attr.value in _GROWING)))


def attributes_changed(modules: Iterable[cst.Module]) -> frozenset[str]:
    """The attributes that files change of objects other than their own: "beta" of `trainer.beta = 0.5`."""
    paths = [path.removeprefix("self.").split(".") for module in modules for path in changed_in_place(module)]
    return frozenset(name for path in paths for name in path[1:])


def _path(node: cst.BaseExpression) -> str | None:
    while isinstance(node, cst.Subscript):
        node = node.value
    return nodes.dotted(node)


class ObjectClasses:
    """What a project's own classes do with their objects, told from how they are written; each class by its bare
    name, under which several files may have one."""

    def __init__(self, modules: Sequence[cst.Module], elsewhere: frozenset[str] = frozenset()) -> None:
        """`elsewhere`: the `attributes_changed` of those modules."""
        self._methods: dict[str, list[cst.FunctionDef]] = {}
        self._bases: dict[str, list[str]] = {}
        for cls in (found for module in modules for found in every(module, cst.ClassDef)):
            inside = suites.suite_of(cls.body.body)
            methods = [one for one in inside if isinstance(one, cst.FunctionDef)]
            self._methods.setdefault(cls.name.value, []).extend(methods)
            bases = [_last(base.value) for base in cls.bases]
            self._bases.setdefault(cls.name.value, []).extend(filter(None, bases))
        self._elsewhere = elsewhere
        self._changed: dict[str, frozenset[str]] = {}

    def __contains__(self, cls: str) -> bool:
        return cls in self._methods

    def changed(self, cls: str) -> frozenset[str]:
        """The attributes of an object that are bound again or changed in place once it is made."""
        if cls not in self._changed:
            later = [one for one in self._all(cls) if one.name.value not in _CONSTRUCTORS]
            self._changed[cls] = self._elsewhere.union(*map(changed_of_self, later))
        return self._changed[cls]

    def used(self, cls: str, method: str) -> set[str]:
        """The attributes that a method uses of its object, itself or by other methods of it."""
        return set().union(*(used_of_self(one) for one in self.reached(cls, method)))

    def only_asks(self, cls: str, method: str) -> bool:
        """Whether a method, with others that it calls of its object, changes nothing of that."""
        return not any(changed_of_self(one) for one in self.reached(cls, method))

    def reached(self, cls: str, method: str) -> list[cst.FunctionDef]:
        """A method, and those that it may call of its object."""
        reached, waiting = dict[str, list[cst.FunctionDef]](), [method]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached[name] = [one for one in self._all(cls) if one.name.value == name]
                waiting += sorted(set().union(*map(used_of_self, reached[name])))
        return [one for found in reached.values() for one in found]

    def holds(self, cls: str, attribute: str) -> set[str]:
        """The names of the classes of which the objects are that the methods of a class make for an attribute."""
        return {
            _last(one.value.func) or ""
            for method in self._all(cls)
            for one in every(method.body, cst.Assign)
            if isinstance(one.value, cst.Call)
            and any(nodes.dotted(target.target) == f"self.{attribute}" for target in one.targets)
        }

    def _all(self, cls: str) -> list[cst.FunctionDef]:
        """The methods of a class and of those that it inherits from."""
        reached, waiting = list[str](), [cls]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.append(name)
                waiting += self._bases.get(name, [])
        return [method for name in reached for method in self._methods.get(name, [])]


_CONSTRUCTORS = ("__init__", "__post_init__", "__new__")


def changed_of_self(method: cst.FunctionDef) -> set[str]:
    """The attributes of self that a method binds, or changes in place."""
    paths = [path.split(".") for path in changed_in_place(method.body)]
    return usage.attributes_set(method.body) | {path[1] for path in paths if path[0] == "self" and len(path) > 1}


def used_of_self(method: cst.FunctionDef) -> set[str]:
    """The attributes of self that a method uses, and those that it calls."""
    return {path.split(".")[1] for path in usage.paths(method.body) if path.startswith("self.")}


def _last(node: cst.CSTNode) -> str | None:
    path = nodes.dotted(node)
    return None if path is None else path.rpartition(".")[2]

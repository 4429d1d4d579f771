"""What a class inherits stands in it while it is lowered (`inherited_methods.py`). What came out alike in all classes
of a file that have it is in the output the method of the class that defines it, and called by `super()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.qualified import inside, spelled
from migrate.known.script import Script
from migrate.lowering.rounds import Lowered
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_Origin = tuple[str, str]  # a class, and a method that it defines
_Methods = Mapping[str, Mapping[str, cst.FunctionDef]]  # by class and name
_INSIDE = (cst.FunctionDef, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)  # no `super()` there


def with_methods_of_bases(lowered: Sequence[Lowered]) -> list[Lowered]:
    """The files of a project with methods in the classes that define them."""
    return [_with_bases(file, file.script) if file.script.inherited else file for file in lowered]


def _with_bases(file: Lowered, script: Script) -> Lowered:
    classes = {
        inside(file.scope, one.name.value): one
        for _, statements in file.body
        for one in statements
        if isinstance(one, cst.ClassDef)
    }
    methods = {name: {each.name.value: each for each in _methods(one)} for name, one in classes.items()}
    alike = {
        origin: copies
        for origin, copies in _copies(methods, script).items()
        if _are_alike(origin, copies, methods) and all(_is_only_called(name, origin, file) for _, name in copies)
    }
    shaped = {one: _class_again(name, one, alike, methods, script) for name, one in classes.items()}
    body = tuple(
        (index, tuple(shaped[one] if isinstance(one, cst.ClassDef) else one for one in statements))
        for index, statements in file.body
    )
    return replace(file, body=body, diagnostics=tuple(dict.fromkeys(file.diagnostics)))


def _methods(node: cst.ClassDef) -> Iterator[cst.FunctionDef]:
    return (one for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef))


def _copies(methods: _Methods, script: Script) -> dict[_Origin, list[tuple[str, str]]]:
    """The classes of a file that have a method of another one of it written out, and its name there."""
    found: dict[_Origin, list[tuple[str, str]]] = {}
    for copy, origin in script.inherited.items():
        cls, _, name = copy.rpartition(".")
        if cls in methods and origin[0] in methods:
            found.setdefault(origin, []).append((cls, name))
    return found


def _are_alike(origin: _Origin, copies: Sequence[tuple[str, str]], methods: _Methods) -> bool:
    """Whether all copies of a method came out as one, and as the method itself where that is there."""
    found = [methods[cls].get(name) for cls, name in copies]
    own = methods[origin[0]].get(origin[1])
    texts = {nodes.code(_plain(one, origin[1])) if one else "" for one in [*found, *([own] if own else [])]}
    return len(texts) == 1 and "" not in texts


def _plain(method: cst.FunctionDef, name: str) -> cst.FunctionDef:
    """A method under its own name, without the lines before it."""
    return method.with_changes(name=nodes.name(name), leading_lines=[])


def _is_only_called(name: str, origin: _Origin, file: Lowered) -> bool:
    """Whether `super()` can say what a class calls by a name of its own."""
    if name == origin[1]:
        return True
    statements = [one for _, made in file.parts for one in made]
    found = [one for each in statements for one in every(each, cst.Name) if one.value == name]
    own = [one for each in statements for one in every(each, cst.FunctionDef) if one.name.value == name]
    classes = [one for one in statements if isinstance(one, cst.ClassDef)]
    calls = [call for one in classes for method in _methods(one) for call in every(method.body, cst.Call, _INSIDE)]
    return len(found) == len(own) + sum(nodes.dotted(call.func) == f"self.{name}" for call in calls)


def _class_again(
    name: str,
    node: cst.ClassDef,
    alike: Mapping[_Origin, Sequence[tuple[str, str]]],
    methods: _Methods,
    script: Script,
) -> cst.ClassDef:
    """A class with the methods that it defines, and without those that it inherits."""
    order = script.inheriting.get(name)
    if order is None:
        return node
    gone = {alias for copies in alike.values() for cls, alias in copies if cls == name}
    body: list[Statement] = []
    for one in suites.suite_of(node.body.body):
        if not isinstance(one, cst.FunctionDef):
            body.append(one)
        elif one.name.value not in gone:
            body.append(_calling_bases(one, name, one.name.value in order, alike, script))
    for method in order:
        if (name, method) not in alike or method in methods[name]:
            continue
        cls, alias = alike[name, method][0]
        made = methods[cls][alias].with_changes(name=nodes.name(method))
        later = order[order.index(method) + 1 :]
        places = (at for at, one in enumerate(body) if isinstance(one, cst.FunctionDef) and one.name.value in later)
        body.insert(next(places, len(body)), _calling_bases(made, cls, True, alike, script))
    if len(body) > 1:
        body = [one for one in body if not suites.is_pass(one)]
    return node.with_changes(body=suites.block_of(node.body, list(_spaced(body))))


def _spaced(body: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a class, with a blank line before methods that follow others."""
    for number, one in enumerate(body):
        comments = suites.comments(one)
        if isinstance(one, cst.FunctionDef):
            yield one.with_changes(leading_lines=[suites.BLANK, *comments] if number else comments)
        else:
            yield one


def _calling_bases(
    method: cst.FunctionDef,
    cls: str,
    own: bool,
    alike: Mapping[_Origin, Sequence[tuple[str, str]]],
    script: Script,
) -> cst.FunctionDef:
    """A method that a class has in the output, with the calls of what its bases have again. `own`: the class, or the
    base whose method it is, defines it; else `super()` means another one."""
    origins = {alias: origin for origin, copies in alike.items() for found, alias in copies if found == cls}
    return nodes.visited(method, _Calling({a: o for a, o in origins.items() if a != o[1]}, own))


class _Calling(cst.CSTTransformer):
    """Calls methods of bases by `super()`, or by the name of the class."""

    def __init__(self, origins: Mapping[str, _Origin], own: bool) -> None:
        super().__init__()
        self.origins, self.own = origins, own

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        path = nodes.dotted(original_node.func) or ""
        origin = self.origins.get(path.removeprefix("self.")) if path.startswith("self.") else None
        if origin is None:
            return updated_node
        if self.own:
            return updated_node.with_changes(func=nodes.expression(f"super().{origin[1]}"))
        args = [*nodes.arguments([nodes.name("self")]), *updated_node.args]
        return updated_node.with_changes(func=nodes.expression(f"{spelled(origin[0])}.{origin[1]}"), args=args)

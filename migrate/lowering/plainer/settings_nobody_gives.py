"""Settings of module classes that are only inherited from, which no class that inherits gives: constants of the class.

In Flax they would be fields, which whoever makes a module of a class that inherits has to give before its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.project_classes import ProjectClass, classes_of, is_module
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def with_constants_of_classes(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such settings as constants."""
    classes = classes_of(inputs)
    edits = {one.scope: Edits() for one in inputs}
    for name, cls in classes.items():
        init = cls.methods.get("__init__")
        heirs = {one for one in classes if one != name and name in _line(one, classes)}
        settings = _kept(init) if init is not None and heirs else {}
        if init is None or not settings or not any(_is_apart(name, heir, classes) for heir in heirs):
            continue
        if not is_module(name, classes) or _given(name, heirs, classes, inputs):
            continue
        found = edits[cls.file.scope]
        found.instead[init] = [_without(init, settings)]
        body = suites.suite_of(cls.node.body.body)
        told = suites.is_docstring(body[0])
        first = body[1] if told and len(body) > 1 else body[0]
        made = [nodes.statement(f"{one} = {{v}}", v=value) for one, value in settings.items()]
        made[0] = made[0].with_changes(leading_lines=[suites.BLANK] if told else [])
        if first is init:
            found.instead[init] = [*made, _spaced(found.instead[init][0])]
        else:
            found.ahead[first] = list(made)
    return [
        replace(one, source=edited(one.source, edits[one.scope])) if edits[one.scope].instead else one for one in inputs
    ]


def _line(name: str, classes: Mapping[str, ProjectClass]) -> list[str]:
    """A class and those that it inherits from, by their first bases."""
    line = [name]
    while line[-1] in classes:
        base = next((one for one in classes[line[-1]].bases if one in classes and one not in line), "")
        if not base:
            break
        line.append(base)
    return line


def _is_apart(name: str, heir: str, classes: Mapping[str, ProjectClass]) -> bool:
    """Whether a class cannot have the constructor of another one written into it: that is in another file, or a class
    between them has none of its own."""
    line = _line(heir, classes)
    between = line[1 : line.index(name)]
    lacking = [one for one in between if "__init__" not in classes[one].methods]
    return bool("__init__" in classes[heir].methods and (lacking or classes[heir].file is not classes[name].file))


def _kept(init: cst.FunctionDef) -> dict[str, Expr]:
    """The parameters of a constructor, with their defaults, where all that it does with them is to keep them."""
    params = init.params
    own = params.params[1:]
    bare = not params.kwonly_params and not isinstance(params.star_arg, cst.Param) and params.star_kwarg is None
    defaults = {one.name.value: one.default for one in own if one.default is not None}
    loads, stored = usage.loads(init.body), usage.stores(init.body)
    lines = [nodes.code(one).strip() for one in suites.suite_of(init.body.body)]
    only = all(
        nodes.literal(value) is not ...
        and loads.count(name) == 1
        and name not in stored
        and f"self.{name} = {name}" in lines
        for name, value in defaults.items()
    )
    return defaults if bare and len(defaults) == len(own) and only else {}


def _given(name: str, heirs: set[str], classes: Mapping[str, ProjectClass], inputs: Sequence[Input]) -> bool:
    """Whether a constructor may be given arguments, by classes that inherit it or by whoever makes an object."""
    makes = {classes[name].name}  # the classes whose objects are made by it
    for heir in heirs:
        after = next(one for one in _line(heir, classes)[1:] if one == name or "__init__" in classes[one].methods)
        init = classes[heir].methods.get("__init__")
        if after == name and init is None:
            makes.add(classes[heir].name)
        for call in usage.calls(init.body) if after == name and init is not None else ():
            given = [arg for arg in call.args if nodes.dotted(arg.value) != "self"]
            if nodes.code(call.func).endswith(".__init__") and given:
                return True
    return any(_mentions(one.source.module, makes) for one in inputs)


def _mentions(module: cst.Module, names: set[str]) -> bool:
    """Whether a file names a class but to inherit from it, to decorate, or to call its constructor with the object
    alone: `Base.__init__(self)`."""
    aside: set[int] = set()
    for node in every(module, (cst.ClassDef, cst.Decorator, cst.Attribute, cst.Call)):
        if isinstance(node, cst.ClassDef):
            aside |= {id(node.name), *(id(part) for arg in node.bases for part in every(arg, cst.Name))}
        elif isinstance(node, cst.Call):
            bare = nodes.code(node.func).endswith(".__init__") and [nodes.code(arg.value) for arg in node.args] == [
                "self"
            ]
            aside |= {id(part) for part in every(node.func, cst.Name)} if bare else set()
        elif isinstance(node, cst.Decorator) or nodes.dotted(node) in ("nn.Module", "torch.nn.Module"):
            aside |= {id(part) for part in every(node, cst.Name)}
    return any(node.value in names and id(node) not in aside for node in every(module, cst.Name))


def _without(init: cst.FunctionDef, settings: Mapping[str, Expr]) -> cst.FunctionDef:
    """A constructor without such parameters."""
    kept = {f"self.{name} = {name}" for name in settings}
    body = [one for one in suites.suite_of(init.body.body) if nodes.code(one).strip() not in kept]
    first = [init.params.params[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    return init.with_changes(params=init.params.with_changes(params=first), body=suites.block_of(init.body, body))


def _spaced(statement: Statement) -> Statement:
    return statement.with_changes(leading_lines=[suites.BLANK, *suites.comments(statement)])

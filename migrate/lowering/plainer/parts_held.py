"""Objects that are given a part of a model, `SimpleLossCompute(model.generator, criterion, optimizer)`.

In Flax a part has no weights of its own: who calls it needs its model. So the input is taken as if the method that
calls the part stood where it is called, and what the object holds in its place (`opened_holders.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate.files.source import SourceFile
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.opened_holders import opened
from migrate.lowering.plainer.updates_in_place import body_in_place, call_sites
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every


def with_parts_at_hand(inputs: Sequence[Input]) -> list[Input] | None:
    """The files of a project without objects that are given parts of models; None where there are none."""
    for one in inputs:
        for cls in one.source.module.body:
            made = _opened(one.source, cls) if isinstance(cls, cst.ClassDef) else None
            if made is not None:
                return [replace(each, source=made) if each is one else each for each in inputs]
    return None


def _opened(source: SourceFile, cls: cst.ClassDef) -> SourceFile | None:
    """A file without the objects of a class that has one method beside its constructor, if that calls a part."""
    body = [one for one in suites.suite_of(cls.body.body) if not suites.is_docstring(one)]
    methods = [one for one in body if isinstance(one, cst.FunctionDef)]
    own = [one for one in methods if one.name.value != "__init__"]
    init = next((one for one in methods if one.name.value == "__init__"), None)
    if cls.bases or len(body) != 2 or len(own) != 1 or init is None:
        return None
    (method,) = own
    called = {(nodes.dotted(call.func) or "").removeprefix("self.") for call in usage.calls(method.body)}
    given = set(_parts_given(source.module, cls.name.value, [one.name.value for one in init.params.params[1:]]))
    kept = {
        cst.ensure_type(small.targets[0].target, cst.Attribute).attr.value
        for line in suites.suite_of(init.body.body)
        if isinstance(small := suites.alone(line), cst.Assign)
        and isinstance(small.targets[0].target, cst.Attribute)
        and nodes.dotted(small.value) in given
    }
    if not kept & called:
        return None
    names = _names_of_objects(source.module, cls.name.value)
    wanted = {name if method.name.value == "__call__" else f"{name}.{method.name.value}" for name in names}
    sites = [site for site in call_sites(source.module) if nodes.dotted(site.call.func) in wanted]
    edited = body_in_place(source, method, sites, method=True)
    made = opened(edited, cls.name.value) if edited is not None else None
    return made if made is not edited else None


def _parts_given(module: cst.Module, cls: str, params: Sequence[str]) -> Iterator[str]:
    """The parameters of a constructor that are given an attribute of something that is bound in the file."""
    bound = {*usage.stores([one for one in module.body if not suites.is_import(one)])}
    bound |= {name for one in every(module, cst.FunctionDef) for name in usage.stores(one.body)}
    bound |= {param.name.value for one in every(module, cst.FunctionDef) for param in one.params.params}
    for call in every(module, cst.Call):
        if nodes.dotted(call.func) != cls:
            continue
        for arg, name in zip(call.args, argument_names(call.args, params), strict=True):
            root, _, path = (nodes.dotted(arg.value) or "").partition(".")
            if path and root in bound:
                yield name


def _names_of_objects(module: cst.Module, cls: str) -> set[str]:
    """What objects of a class are called: variables, and parameters of functions that are given them."""
    names = set[str]()
    for line in every(module, cst.Assign):
        target = line.targets[0].target
        if isinstance(line.value, cst.Call) and nodes.dotted(line.value.func) == cls and isinstance(target, cst.Name):
            names.add(target.value)
    functions = {one.name.value: one for one in module.body if isinstance(one, cst.FunctionDef)}
    found = set(names)
    for call in every(module, cst.Call):
        function = functions.get(nodes.dotted(call.func) or "")
        if function is None:
            continue
        params = [one.name.value for one in function.params.params]
        for arg, name in zip(call.args, argument_names(call.args, params), strict=True):
            made = isinstance(arg.value, cst.Call) and nodes.dotted(arg.value.func) == cls
            found |= {name} if made or nodes.dotted(arg.value) in names else set()
    return found

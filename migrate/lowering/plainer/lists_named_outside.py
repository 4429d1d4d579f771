"""Lists of the file's that a constructor keeps under another name: `self.architecture = ARCHITECTURE`.

Flax makes tuples of the lists that a module keeps, which code that asks for lists tells apart. The input is taken as if
the class read such a list where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every


def with_lists_named(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with the names of such lists in the place of the attributes."""
    found = [dict(_lists(one.source.module)) for one in inputs]
    if not any(found):
        return list(inputs)
    set_anywhere = Counter(name for one in inputs for name in _set(one.source.module))
    made: list[Input] = []
    for one, lists in zip(inputs, found, strict=True):
        edits = Edits()
        for cls in every(one.source.module, cst.ClassDef) if lists else ():
            for read, name in _reads(cls, lists, set_anywhere):
                edits.parts[read] = nodes.name(name)
        made.append(one.edited(edits))
    return made


def _set(module: cst.Module) -> list[str]:
    return [name for line in every(module, (cst.Assign, cst.AugAssign)) for name in usage.attributes_assigned(line)]


def _lists(module: cst.Module) -> Iterator[tuple[str, cst.List]]:
    """The names of the file's that stand for a list with parts that are lists, and for nothing else."""
    times = Counter(usage.stores(module.body))
    for line in module.body:
        name, value = suites.name_and_value(line)
        elements = [one.value for one in value.elements] if isinstance(value, cst.List) else []
        if isinstance(value, cst.List) and times[name] == 1 and any(isinstance(one, cst.List) for one in elements):
            yield name, value


def _reads(
    cls: cst.ClassDef, lists: dict[str, cst.List], set_anywhere: Counter[str]
) -> Iterator[tuple[cst.Attribute, str]]:
    """Where a class reads an attribute that is such a list, with the name of that."""
    methods = [one for one in cls.body.body if isinstance(one, cst.FunctionDef)]
    init = next((one for one in methods if one.name.value == "__init__"), None)
    kept: dict[str, str] = {}
    for line in [] if init is None else suites.suite_of(init.body.body):
        small = suites.alone(line)
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.value, cst.Name):
            path = nodes.dotted(small.targets[0].target) or ""
            attribute = path.removeprefix("self.")
            if path.startswith("self.") and small.value.value in lists and set_anywhere[attribute] == 1:
                kept[path] = small.value.value
    for method in methods if kept else ():
        own = set(usage.stores(method.body)) | {one.name.value for one in method.params.params}
        targets = {target.target for target in every(method, cst.AssignTarget)}
        for read in every(method, cst.Attribute):
            name = kept.get(nodes.dotted(read) or "")
            if name is not None and name not in own and read not in targets:
                yield read, name

"""Methods that name the one object of their class: `pred = model.discriminator(x)` in a class of which `model = GAN()`
is the only object. The input is taken as if they said `self`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.mentions import by_itself, in_supers, mentions
from migrate.syntax.walking import every


def with_objects_as_self(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with `self` for such an object."""
    made: list[Input] = []
    for one in inputs:
        edits = Edits()
        for cls, name in _only_objects(one.source.module):
            if all(other is one or cls.name.value not in usage.loads(other.source.module.body) for other in inputs):
                edits.parts |= {read: cst.Name(own) for read, own in _reads(cls, name)}
        made.append(one.edited(edits))
    return made


def _only_objects(module: cst.Module) -> Iterator[tuple[cst.ClassDef, str]]:
    """The classes of which a file makes one object, with the name that stands for it and for nothing else."""
    values: dict[str, list[cst.CSTNode]] = {}
    for line in every(module, cst.SimpleStatementLine, closed=(cst.FunctionDef, cst.ClassDef)):
        name, value = suites.name_and_value(line)
        if value is not None:
            values.setdefault(name, []).append(unchained(value))
    times = Counter(usage.stores(module.body))
    for cls in module.body:
        if not isinstance(cls, cst.ClassDef):
            continue
        for name, given in values.items():
            makes = [one for one in given if isinstance(one, cst.Call) and _is_name(one.func, cls.name.value)]
            same = [one for one in given if _is_name(one, name)]
            if len(makes) == 1 and len(makes) + len(same) == len(given) == times[name] and _is_made_once(module, cls):
                yield cls, name


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _is_made_once(module: cst.Module, cls: cst.ClassDef) -> bool:
    """Whether a class is named in one place other than `super(GAN, self)` and its own definition."""
    return len(mentions(module, cls.name.value, {cls.name, *in_supers(cls)})) == 1


def _reads(cls: cst.ClassDef, name: str) -> Iterator[tuple[cst.Name, str]]:
    """Where methods of a class read a name that they do not bind, with their name for the object."""
    for method in cls.body.body:
        if not isinstance(method, cst.FunctionDef) or method.decorators or not method.params.params:
            continue
        bound = {*usage.stores(method.body), *(one.name.value for one in every(method, cst.Param))}
        if name not in bound:
            for read in by_itself(method.body, name):
                yield read, method.params.params[0].name.value

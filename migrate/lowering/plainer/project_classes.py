"""The classes of a project by their names, before anything is known of what these stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.rounds import Input
from migrate.syntax import nodes

_MODULES = ("nn.Module", "torch.nn.Module", "Module", "nn_Module")


@dataclass
class ProjectClass:
    """A class: the file that it is of, its definition, the names of its bases, its methods."""

    file: Input
    node: cst.ClassDef
    bases: list[str]
    methods: dict[str, cst.FunctionDef]


def classes_of(inputs: Sequence[Input]) -> dict[str, ProjectClass]:
    """The classes at the top of files, but for those of which there are several of one name."""
    found: dict[str, list[ProjectClass]] = {}
    for one in inputs:
        for node in one.source.module.body:
            if isinstance(node, cst.ClassDef):
                bases = [(nodes.dotted(arg.value) or "").rpartition(".")[2] for arg in node.bases]
                methods = {m.name.value: m for m in node.body.body if isinstance(m, cst.FunctionDef)}
                found.setdefault(node.name.value, []).append(ProjectClass(one, node, bases, methods))
    return {name: group[0] for name, group in found.items() if len(group) == 1}


def is_module(name: str, classes: Mapping[str, ProjectClass], seen: frozenset[str] = frozenset()) -> bool:
    """Whether a class inherits from `nn.Module`, as far as names tell."""
    written = {nodes.dotted(arg.value) for arg in classes[name].node.bases}
    if written & set(_MODULES) and not (written & set(_MODULES) & classes.keys()):
        return True
    bases = [base for base in classes[name].bases if base in classes and base not in seen | {name}]
    return any(is_module(base, classes, seen | {name}) for base in bases)

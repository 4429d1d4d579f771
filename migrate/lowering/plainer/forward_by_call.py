"""Modules that write their forward pass as `__call__`, past torch's hooks: it is the forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.walking import every


def with_forward_passes(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project in which those are called `forward`. A class that others inherit from may have one in
    them, which its `__call__` calls."""
    if not any("def __call__(" in one.source.text for one in inputs):
        return list(inputs)
    inherited = {
        (nodes.dotted(base.value) or "").rpartition(".")[2]
        for one in inputs
        for cls in every(one.source.module, cst.ClassDef)
        for base in cls.bases
    }
    return [one.edited(_edits(one.source.module, inherited)) for one in inputs]


def _edits(module: cst.Module, inherited: set[str]) -> Edits:
    edits = Edits()
    imported = imported_names(module)
    for cls in every(module, cst.ClassDef):
        body = suites.suite_of(cls.body.body)
        methods = {one.name.value: one for one in body if isinstance(one, cst.FunctionDef)}
        of_torch = [full_name(base.value, imported) for base in cls.bases] == ["torch.nn.Module"]
        called = methods.get("__call__")
        if not of_torch or called is None or "forward" in methods or cls.name.value in inherited:
            continue
        if any(one.value in ("forward", "__call__") for one in every(called.body, cst.Name)):
            continue
        edits.parts[called.name] = cst.Name("forward")
    return edits

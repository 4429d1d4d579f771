"""Where a script switches models between train and eval mode, by its text alone."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate.known.states import MODES
from migrate.syntax import usage
from migrate.syntax.walking import every


def switches_modes(node: cst.CSTNode) -> bool:
    """Whether code calls `train` or `eval` of anything."""
    return any(isinstance(call.func, cst.Attribute) and call.func.attr.value in MODES for call in usage.calls(node))


def switching_around(module: cst.Module) -> Iterator[str]:
    """The functions and classes of a file that may switch modes around other code: as decorators, or as contexts."""
    for line in module.body:
        if isinstance(line, cst.FunctionDef) and switches_modes(line):
            inner = any(isinstance(one, cst.FunctionDef) for one in every(line.body, cst.FunctionDef))
            if inner or any(True for _ in every(line.body, cst.Yield)):
                yield line.name.value
        elif isinstance(line, cst.ClassDef) and switches_modes(line):
            methods = {one.name.value for one in line.body.body if isinstance(one, cst.FunctionDef)}
            if methods & {"__enter__", "__call__"}:
                yield line.name.value

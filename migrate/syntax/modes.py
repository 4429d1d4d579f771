"""Where a script switches models between train and eval mode, by its text alone."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate.known.states import MODES
from migrate.syntax import usage
from migrate.syntax.walking import every


def definitions(module: cst.Module) -> list[cst.FunctionDef | cst.ClassDef]:
    """The functions and classes of a file."""
    return [line for line in module.body if isinstance(line, cst.FunctionDef | cst.ClassDef)]


def switches_modes(node: cst.CSTNode) -> bool:
    """Whether code calls `train` or `eval` of anything."""
    return any(isinstance(call.func, cst.Attribute) and call.func.attr.value in MODES for call in usage.calls(node))


def switching_around(module: cst.Module) -> Iterator[str]:
    """The functions and classes of a file that may switch modes around other code: as decorators, or as contexts."""
    for line in filter(switches_modes, definitions(module)):
        if isinstance(line, cst.ClassDef):
            around = any(_runs_others(one) for one in line.body.body)
        else:
            around = next(every(line.body, (cst.FunctionDef, cst.Yield)), None) is not None
        if around:
            yield line.name.value


def _runs_others(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.FunctionDef) and line.name.value in ("__enter__", "__call__")

"""What names of a file stand for by its imports."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def imported_names(module: cst.Module) -> dict[str, str]:
    """What the imports of a file bind, by its full name: `nn` is "torch.nn" after `from torch import nn`."""
    found: dict[str, str] = {}
    for line in every(module, (cst.Import, cst.ImportFrom)):
        package = f"{nodes.code(line.module)}." if isinstance(line, cst.ImportFrom) and line.module else ""
        for alias in [] if isinstance(line.names, cst.ImportStar) else line.names:
            whole = f"{package}{alias.evaluated_name}"
            first = whole if package else whole.partition(".")[0]  # `import torch.nn` binds torch
            name = alias.evaluated_alias or (alias.evaluated_name if package else first)
            found[name] = whole if alias.evaluated_alias else first
    return found


def module_written(line: cst.ImportFrom) -> str:
    """The module that an import is from, as it is written: "..data.sets" of `from ..data.sets import digits`."""
    return "." * len(line.relative) + ((nodes.dotted(line.module) or "") if line.module else "")


def full_name(node: Expr, imported: Mapping[str, str]) -> str:
    """A dotted name with what its first part has been imported as; "" of what is none, and of other names."""
    first, dot, rest = (nodes.dotted(node) or "").partition(".")
    return f"{imported[first]}{dot}{rest}" if first in imported else ""

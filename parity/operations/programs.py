"""The operations as programs: a file with a torch module for each, which is rewritten as any other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from parity.operations.table import OPERATIONS

_HEADER = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def class_of(name: str) -> str:
    """The class of an operation: no name of Python's or of a helper that the rewrite brings."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def in_torch(names: Iterable[str]) -> str:
    """A torch file with a module for each operation."""
    return "\n\n".join([_HEADER, *map(_module, names)])


def _module(name: str) -> str:
    operation = OPERATIONS[name]
    arguments = ", ".join(["self", *operation.inputs])
    return f"class {class_of(name)}(nn.Module):\n    def forward({arguments}):\n        return {operation.torch}\n"


def returned(text: str, name: str) -> str:
    """What the module of an operation returns, as the file has it."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == class_of(name):
            last = node.body[-1]
            assert isinstance(last, ast.FunctionDef) and isinstance(last.body[-1], ast.Return)
            return ast.unparse(last.body[-1].value or ast.Constant(None))
    raise KeyError(name)


def functions(text: str, called: Callable[[Any], Callable[..., Any]]) -> Callable[[str], Callable[..., Any]]:
    """The operations of a file, by name; `called` makes a function of a module."""
    defined: dict[str, Any] = {"__name__": "operations"}
    exec(compile(text, "operations.py", "exec", dont_inherit=True), defined)
    return lambda name: called(defined[class_of(name)]())

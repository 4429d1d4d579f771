"""Methods that a class defines twice: the last definition is the one that counts, as where a book builds its classes up
from page to page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

_OVERLOADS = ("torch.jit._overload_method", "torch.jit._overload", "overload", "typing.overload")


def with_last_definitions(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without the methods that others of their name take the place of."""
    made: list[Input] = []
    for one in inputs:
        gone = [method for cls in every(one.source.module, cst.ClassDef) for method in _overwritten(cls)]
        made.append(one.edited(Edits(instead={method: [] for method in gone})))
    return made


def _overwritten(cls: cst.ClassDef) -> Iterator[cst.FunctionDef]:
    """The methods that the body of a class defines again, without a decorator but for those of declared types, and
    reads nowhere itself."""
    last: dict[str, cst.FunctionDef] = {}
    read = {name for line in cls.body.body if not isinstance(line, cst.FunctionDef) for name in usage.loads(line)}
    for line in cls.body.body:
        if not isinstance(line, cst.FunctionDef):
            continue
        read |= {name for decorator in line.decorators for name in usage.loads(decorator)}
        name = line.name.value
        if name in last and name not in read and _only_declares(last[name]) and _only_declares(line):
            yield last[name]
        last[name] = line


def _only_declares(method: cst.FunctionDef) -> bool:
    """Whether a method has no decorators but those that declare its types."""
    return all(nodes.dotted(one.decorator) in _OVERLOADS for one in method.decorators)

"""`torch.jit.ScriptModule`, with which modules were compiled before `torch.compile`: it is `nn.Module`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes
from migrate.syntax.walking import every

_OLD = "torch.jit.ScriptModule"


def with_plain_modules(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with classes that inherit from `nn.Module` in the place of that."""
    made: list[Input] = []
    for one in inputs:
        bases = [arg.value for cls in every(one.source.module, cst.ClassDef) for arg in cls.bases]
        parts: dict[cst.CSTNode, cst.CSTNode] = {
            base: nodes.expression("torch.nn.Module") for base in bases if nodes.dotted(base) == _OLD
        }
        made.append(one.edited(Edits(parts=parts)))
    return made

"""`optimizer.zero_grad(); loss.backward()`, `fc.weight.data.zero_(); fc.bias.data.zero_()`, `self.k = 2; self.f = F()`:
each on a line of its own. What asks where a loss goes backward, how a weight starts, or what an object has, takes them
to be."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.one_line import pieces_of_line
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every


def with_lines_apart(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such lines as several."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    lines = (line for line in every(module, cst.SimpleStatementLine) if len(line.body) > 1)
    return Edits({line: pieces_of_line(line) for line in lines if any(map(_is_alone, line.body))})


def _is_alone(small: cst.BaseSmallStatement) -> bool:
    match small:
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=method)))):
            by_init = (nodes.dotted(owner) or "").rpartition(".")[2] == "init"
            return by_init or method in _ALONE or usage.is_in_place(method)
        case cst.Assign(targets=targets):
            return any(isinstance(one.target, cst.Attribute) for one in targets)
        case cst.AugAssign(target=target):
            return isinstance(target, cst.Attribute)
    return False


_ALONE = frozenset(
    {"backward", "step", "zero_grad", "append", "extend", "add_module", "register_buffer", "load_state_dict"}
)

"""Rows that are filled by their numbers, as label smoothing does it:

    mask = torch.nonzero(target == padding)
    if mask.dim() > 0:
        dist.index_fill_(0, mask.squeeze(), 0.0)

How many numbers there are depends on the data, which jit cannot follow; `dist[target == padding] = 0.0` says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_AS_VECTOR = ("{n}.squeeze()", "{n}.squeeze(1)", "{n}.squeeze(-1)", "{n}.view(-1)", "{n}.flatten()", "{n}[:, 0]")
_SOME = ("{n}.dim() > 0", "len({n}) > 0", "{n}.numel() > 0", "{n}.size(0) > 0", "{n}.shape[0] > 0")


def by_mask(
    first: Statement, second: Statement, block: Sequence[Statement], torch_name: Callable[[Expr], str | None]
) -> tuple[Statement, Statement] | None:
    """Two such statements of a block with a mask in the place of the numbers; None for others. The mask is a
    comparison, and nothing else reads the numbers."""
    small = suites.alone(first)
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    call = small.value if isinstance(small, cst.Assign) else None
    if not isinstance(small, cst.Assign) or not isinstance(target, cst.Name) or not isinstance(call, cst.Call):
        return None
    told = torch_name(call.func) == "torch.nonzero" and len(call.args) == 1
    compared = call.args[0].value if told else None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "nonzero" and not call.args:
        compared = call.func.value
    filling = _filling(second, target.value)
    if not isinstance(compared, cst.Comparison) or filling is None:
        return None
    mentions = [one for line in block for one in every(line, cst.Name) if one.value == target.value]
    within = [one for one in every(second, cst.Name) if one.value == target.value]
    if len(mentions) != len(within) + 1:
        return None
    rows, value = filling
    bare = compared.with_changes(lpar=[], rpar=[])
    mask = nodes.statement("{n} = {c}", n=target, c=bare)
    filled = nodes.statement("{x}[{n}] = {v}", x=rows, n=nodes.name(target.value), v=value)
    return suites.commented(mask, first), suites.commented(filled, second)


def _filling(statement: Statement, name: str) -> tuple[Expr, Expr] | None:
    """What `x.index_fill_(0, mask.squeeze(), v)` fills, and with what; also below a test of whether it is empty."""
    if isinstance(statement, cst.If):
        body, tests = suites.suite_of(statement.body.body), [statement.test]
        if isinstance(statement.test, cst.BooleanOperation) and isinstance(statement.test.operator, cst.And):
            tests = [statement.test.left, statement.test.right]
        some = {text.format(n=name) for text in _SOME}
        if statement.orelse is not None or len(body) != 1 or not all(nodes.code(test) in some for test in tests):
            return None
        return _filling(body[0], name)
    small = suites.alone(statement)
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or len(call.args) != 3:
        return None
    axis, rows, value = (arg.value for arg in call.args)
    plain = not any(arg.keyword or arg.star for arg in call.args) and nodes.is_literal(axis, 0)
    vector = nodes.code(rows) in {text.format(n=name) for text in _AS_VECTOR}
    fills = call.func.attr.value == "index_fill_" and nodes.dotted(call.func.value) is not None
    return (call.func.value, value) if plain and vector and fills and nodes.literal(value) is not ... else None

"""Arrays that begin with nothing, `seen = torch.tensor([])`, and grow: `seen = torch.cat((seen, x))`.

torch takes an array of shape (0,) beside arrays of any number of axes.
"""

from __future__ import annotations

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.remembering import remembered

_MADE = {"tensor", "Tensor", "FloatTensor", "DoubleTensor", "LongTensor", "IntTensor", "empty", "zeros", "ones"}


def starts_empty(scope: Scope, node: cst.Call) -> bool:
    """Whether a call joins what a name of the file has begun as, with nothing in it."""
    joined = node.args[0].value if node.args else None
    parts = nodes.elements(joined) if isinstance(joined, cst.Tuple | cst.List) else []
    paths = set(map(nodes.dotted, parts))
    begun = [call for path, call in _begun_empty(scope.unit.source.module) if path in paths]
    begun += [part for part in parts if isinstance(part, cst.Call) and _of_nothing(part)]
    return any((scope.torch_name(call.func) or "").rpartition(".")[2] in _MADE for call in begun)


@remembered
def _begun_empty(module: cst.Module) -> list[tuple[str, cst.Call]]:
    """The names and attributes that a file gives what a call makes of nothing."""
    return [
        (path, value)
        for target, value in usage.bindings(module)
        if isinstance(value, cst.Call) and _of_nothing(value) and (path := nodes.dotted(target)) is not None
    ]


def _of_nothing(call: cst.Call) -> bool:
    given = [arg.value for arg in call.args if arg.keyword is None]
    return not given or (len(given) == 1 and _is_nothing(given[0]))


def _is_nothing(node: Expr) -> bool:
    return nodes.literal(node) in ([], (), 0, (0,), [0]) and not nodes.is_literal(node, False)

"""Functions of other packages that give rows of what they are given, whatever sort of array that is: the parts of
`train_test_split(X, y)` are tensors where X and y are."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import UNKNOWN, Host, Items, Kind, Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax.imported import full_name

_SPLIT = "sklearn.model_selection.train_test_split"  # (train, test) of each array
_SHUFFLE = "sklearn.utils.shuffle"  # each array, and no list of a single one


def rows_of(scope: Scope, node: cst.Call, values: list[Value]) -> Kind | None:
    """What such a function returns; None of other calls, and where it is given no tensor."""
    name = full_name(node.func, scope.unit.imported)
    if name not in (_SPLIT, _SHUFFLE) or any(arg.star for arg in node.args):
        return None
    kinds = [_rows(value.kind) for value, arg in zip(values, node.args, strict=True) if arg.keyword is None]
    if all(kind == UNKNOWN for kind in kinds):
        return None
    if name == _SPLIT:
        return Items(tuple(kind for kind in kinds for _ in range(2)), type="list")
    return Items(tuple(kinds), type="list") if len(kinds) > 1 else kinds[0]


def _rows(kind: Kind) -> Kind:
    return kind if isinstance(kind, Tensor) or kind == Host("tensor") else UNKNOWN

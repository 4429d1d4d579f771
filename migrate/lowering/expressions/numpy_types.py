"""What the text tells of the type of numpy's arrays: `np.zeros(size, dtype=bool)`, followed through attributes, names
and what functions return. A row of booleans picks where it is true, a row of integers by place."""

from __future__ import annotations

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Instance
from migrate.lowering.expressions.results_followed import assigned_once, part_of_result
from migrate.lowering.initial.attributes_followed import attribute_given
from migrate.lowering.scope import Scope
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_BOOLS = frozenset({"bool", "np.bool_", "np.bool", "np.bool8", "numpy.bool_", "numpy.bool"})
_OF_SAME_TYPE = ("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.asarray")
_FARTHEST = 8  # steps that are followed


def holds_bools(scope: Scope, node: Expr) -> bool:
    """Whether an expression is made of an array that numpy has made for booleans."""
    return _holds_bools(scope, node, None, _FARTHEST)


def _holds_bools(scope: Scope, node: Expr, method: FunctionFacts | None, left: int) -> bool:
    """`method`: the one that the expression is of, where that is not the scope's own."""
    if not left:
        return False
    if isinstance(node, cst.Subscript):
        part = part_of_result(scope, node) if method is None else None
        return _holds_bools(scope, node.value, method, left - 1) if part is None else _follow(scope, part, left)
    if isinstance(node, cst.Name):
        value = scope.env.definitions.get(node.value) if method is None else assigned_once(method, node.value)
        return value is not None and _holds_bools(scope, value, method, left - 1)
    if isinstance(node, cst.Attribute):
        given = attribute_given(scope.script.methods(_class_of(scope, node.value, method)), node.attr.value)
        return given is not None and _type_given(given[1]) in _BOOLS
    if not isinstance(node, cst.Call):
        return False
    if node.args and scope.torch_name(node.func) in _OF_SAME_TYPE and not any(arg.keyword for arg in node.args[:1]):
        typed = any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in node.args)
        return not typed and _holds_bools(scope, node.args[0].value, method, left - 1)
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("to", "cuda", "copy", "clone"):
        return _holds_bools(scope, node.func.value, method, left - 1)
    return _type_given(node) in _BOOLS


def _follow(scope: Scope, part: tuple[FunctionFacts, Expr], left: int) -> bool:
    facts, value = part
    return _holds_bools(scope, value, facts, left - 1)


def _type_given(node: Expr) -> str:
    """The type that `np.zeros(n, dtype=bool)` names."""
    args = node.args if isinstance(node, cst.Call) else []
    given = [arg.value for arg in args if arg.keyword is not None and arg.keyword.value == "dtype"]
    return nodes.dotted(given[0]) or "" if given else ""


def _class_of(scope: Scope, owner: Expr, method: FunctionFacts | None) -> str:
    """The class of the object that an attribute is of; "" where that is not told."""
    if nodes.dotted(owner) == "self":
        around = scope.scope if method is None else method.qualname
        return around.rpartition(".")[0]
    kind = scope.kind_of(owner) if method is None else None
    return kind.cls if isinstance(kind, Instance) else ""

"""Tensors that are filled place by place in a loop on the host, whose memory may be donated: no array that the script
has anywhere is that of the tensor.

Where torch makes a new tensor, JAX may give back the array itself (`x.clone()`, `torch.cat([x])`), which would be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.lowering.statements.other_names import TOLD, VIEWS
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_LIKE = ("zeros_like", "ones_like", "empty_like", "full_like")
_CREATING = frozenset(["zeros", "ones", "empty", "full", "rand", "randn", *_LIKE])
Test = Callable[[Expr], bool]
_READING = frozenset([*TOLD, "size", "dim", "numel", "sum", "mean", "std", "max", "min"])


def is_alone(scope: Scope, name: str) -> bool:
    """Whether the function that fills a tensor has made it, and does no more with it, and with its views, than to read
    parts and to compute."""
    body: cst.CSTNode = scope.unit.source.module if scope.facts is None else scope.facts.node.body
    inner = usage.loads(every(body, (cst.FunctionDef, cst.Lambda, cst.ClassDef)))
    if any(every(body, cst.Global)):
        return False
    reads = _Reads({id(child): one for one in every(body, cst.CSTNode) for child in one.children}, set(inner))
    return reads.only_computes(body, name, lambda value: _is_created(scope, value), frozenset())


class _Reads:
    """What a function does with its names. `parents`: the node around each, by identity; `inner`: the names that
    functions inside it read."""

    def __init__(self, parents: Mapping[int, cst.CSTNode], inner: set[str]) -> None:
        self.parents, self.inner = parents, inner

    def only_computes(self, body: cst.CSTNode, name: str, made: Test, seen: frozenset[str]) -> bool:
        """Whether a name is only read for what is computed, and bound to nothing but what is `made`."""
        met = [one for one in every(body, cst.Name) if one.value == name]
        return name not in self.inner and all(self._is_harmless(body, one, made, seen | {name}) for one in met)

    def _is_harmless(self, body: cst.CSTNode, node: cst.Name, made: Test, seen: frozenset[str]) -> bool:
        view, around, numpy = self._view(node)
        match around:
            case cst.Attribute(attr=attr) if attr is view:
                return True  # another name
            case cst.Arg(keyword=keyword) if keyword is view:
                return True
            case cst.AssignTarget():
                bound = self.parents[id(around)]
                return isinstance(bound, cst.Assign) and made(bound.value)
            case cst.Subscript(value=whole, slice=parts) if whole is view:
                return not all(isinstance(each.slice, cst.Slice) for each in parts)
            case cst.Attribute(attr=cst.Name(value=attribute)):
                return attribute in _READING
            case cst.BinaryOperation():
                return True
            case cst.Arg():
                call = self.parents[id(around)]
                named = nodes.dotted(call.func) if isinstance(call, cst.Call) else None
                return (named or "").rpartition(".")[2] in ("len", *_LIKE)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=other))]):
                anything = numpy or other in seen or self.only_computes(body, other, lambda _value: True, seen)
                return anything  # numpy's array keeps the memory that it shows
            case _:
                return False

    def _view(self, node: Expr) -> tuple[Expr, cst.CSTNode, bool]:
        """The view of a name that an expression makes, `x.reshape(-1)`, what stands around it, and whether it is an
        array of numpy's."""
        numpy = False
        while True:
            around = self.parents[id(node)]
            called = isinstance(around, cst.Attribute) and around.value is node and around.attr.value in VIEWS
            call = self.parents[id(around)] if called else None
            if not isinstance(around, cst.Attribute) or not isinstance(call, cst.Call) or call.func is not around:
                return node, around, numpy
            node, numpy = call, numpy or around.attr.value == "numpy"


def _is_created(scope: Scope, value: Expr) -> bool:
    """Whether a tensor is made of sizes alone, and moved at most."""
    if not isinstance(value, cst.Call):
        return False
    name = scope.torch_name(value.func)
    if name is not None:
        return name.rpartition(".")[2] in _CREATING
    moved = value.func if isinstance(value.func, cst.Attribute) and value.func.attr.value in VIEWS else None
    return moved is not None and _is_created(scope, moved.value)

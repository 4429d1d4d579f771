"""Tensors that are filled place by place in a loop on the host, whose memory may be donated: no array that the script
has anywhere is that of the tensor.

Where torch makes a new tensor, JAX may give back the array itself (`x.clone()`, `torch.cat([x])`), which would be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.lowering.statements.other_names import TOLD, VIEWS
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every

_LIKE = ("zeros_like", "ones_like", "empty_like", "full_like")
_CREATING = frozenset(["zeros", "ones", "empty", "full", "rand", "randn", *_LIKE])
_READING = frozenset([*TOLD, "size", "dim", "numel", "sum", "mean", "std", "max", "min"])

Test = Callable[[Expr], bool]


def is_alone(scope: Scope, name: str) -> bool:
    """Whether the function that fills a tensor has made it, and does no more with it, and with its views, than to read
    parts and to compute."""
    reads = _reads(scope.own_body)
    return not reads.has_globals and reads.only_computes(name, partial(_is_created, scope))


@remembered
def _reads(body: cst.CSTNode) -> _Reads:
    return _Reads(body)


class _Reads:
    """What a function does with its names."""

    def __init__(self, body: cst.CSTNode) -> None:
        self.names = list(every(body, cst.Name))
        self.has_globals = any(every(body, cst.Global))
        self.parents = {id(child): one for one in every(body, cst.CSTNode) for child in one.children}
        self.inner = set(usage.loads(every(body, (cst.FunctionDef, cst.Lambda, cst.ClassDef))))

    def only_computes(self, name: str, made: Test | None, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a name is only read for what is computed, and bound to nothing but what is `made`, where that is
        asked."""
        met = [one for one in self.names if one.value == name]
        return name not in self.inner and all(self._is_harmless(one, made, seen | {name}) for one in met)

    def _is_harmless(self, node: cst.Name, made: Test | None, seen: frozenset[str]) -> bool:
        view, around, numpy = self._view(node)
        match around:
            case cst.Attribute(attr=attr) if attr is view:
                return True  # another name
            case cst.Arg(keyword=keyword) if keyword is view:
                return True
            case cst.AssignTarget():
                bound = self.parents[id(around)]
                return isinstance(bound, cst.Assign) and (made is None or made(bound.value))
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
                return numpy or other in seen or self.only_computes(other, None, seen)  # numpy keeps what it shows
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

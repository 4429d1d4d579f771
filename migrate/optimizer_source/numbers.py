"""Numbers of a step that jit does not know: how many steps there were, a rate that changes, a norm.

In torch they are Python's, which `math` takes; in the output they are arrays.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_FUNCTIONS = ("sqrt", "exp", "log", "cos", "sin", "tanh", "floor", "ceil", "log2", "log10")
_SHAPES = ("size", "dim", "numel", "ndimension")
_MODULES = ("math", "np", "numpy")


def on_arrays(body: Sequence[Statement], traced: Set[str]) -> list[Statement]:
    """A step that works on arrays: what it computes of the `traced` names with Python's functions, it computes with
    torch's."""
    known = set(traced)
    while True:
        found = {
            name
            for small in every(cst.Module(list(body)), (cst.Assign, cst.AugAssign, cst.AnnAssign))
            if small.value is not None and known & set(_read([small.value]))
            for name in usage.stores(cst.SimpleStatementLine([small]))
        }
        if found <= known:
            return [nodes.visited(each, _OnArrays(known)) for each in body]
        known |= found


def _read(values: Sequence[Expr]) -> list[str]:
    """The names of which expressions read more than the shape, which jit knows."""
    return [name for value in values for name in usage.loads(nodes.visited(value, _Unshaped()))]


class _Unshaped(cst.CSTTransformer):
    """An expression with numbers for lengths and numbers of axes."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        return cst.Integer("1") if isinstance(func, cst.Attribute) and func.attr.value in _SHAPES else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return cst.Integer("1") if updated_node.attr.value in ("shape", "ndim") else updated_node


def without_last_change(body: Sequence[Statement], grad: str) -> list[Statement]:
    """A step that does not change its gradient in place where nothing reads that later, but for its shape."""
    made = list(body)
    for number, each in enumerate(body):
        if grad not in _read_by(body[number + 1 :]):
            made[number] = nodes.visited(each, _OutOfPlace(grad)) if _is_value(each) else each
    return made


def _is_value(statement: Statement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign)


def _read_by(body: Sequence[Statement]) -> list[str]:
    return [name for each in body for name in usage.loads(nodes.visited(each, _Unshaped()))]


class _OutOfPlace(cst.CSTTransformer):
    """`grad.lerp_(m, beta)` as `grad.lerp(m, beta)`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or nodes.dotted(func.value) != self.name:
            return updated_node
        if not usage.is_in_place(func.attr.value):
            return updated_node
        return updated_node.with_changes(func=func.with_changes(attr=nodes.name(func.attr.value.rstrip("_"))))


class _NumbersAsArrays(cst.CSTTransformer):
    """Numbers that names are given, as arrays of floats."""

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        value = nodes.literal(updated_node.value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return updated_node
        return updated_node.with_changes(value=nodes.expression(f"torch.tensor({float(value)})"))


class _OnArrays(cst.CSTTransformer):
    """Calls of Python's functions as those of torch's, where an argument is an array."""

    def __init__(self, traced: Set[str]) -> None:
        super().__init__()
        self.traced = traced

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        """`if norm == 0: ratio = 1` beside `else: ratio = norm / other`: both are arrays."""
        if not self.traced & set(_read([original_node.test])) or not isinstance(updated_node.orelse, cst.Else):
            return updated_node
        return nodes.visited(updated_node, _NumbersAsArrays())

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """`x.copy_(torch.maximum(x, y))`, as `out=x` says it, binds x again."""
        small = updated_node.body[0]
        call = small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None
        if call is None or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "copy_":
            return updated_node
        made, target = call.args[0].value, call.func.value
        of_itself = isinstance(made, cst.Call) and any(arg.value.deep_equals(target) for arg in made.args)
        if not of_itself or not isinstance(target, cst.Name):
            return updated_node
        return updated_node.with_changes(body=[cst.Assign([nodes.target(target)], made)])

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        path = nodes.dotted(updated_node.func) or ""
        values = [arg.value for arg in updated_node.args]
        if isinstance(updated_node.func, cst.Attribute) and updated_node.func.attr.value == "item" and not values:
            return updated_node.func.value
        if not self.traced & set(_read(values)):
            return updated_node
        if path == "float" and len(values) == 1:
            return nodes.parenthesized(values[0])
        if path in ("max", "min") and len(values) == 2:
            return updated_node.with_changes(func=nodes.expression(f"torch.{path}imum"))
        module, _, function = path.rpartition(".")
        if module in _MODULES and function in _FUNCTIONS:
            return updated_node.with_changes(func=nodes.expression(f"torch.{function}"))
        if path == "math.pow" and len(values) == 2:
            made = nodes.expression("{x} ** {n}", x=values[0], n=values[1])
            return nodes.parenthesized(made)
        return updated_node

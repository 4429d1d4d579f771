"""Masks that only go by the shapes of what they select from: `sim[~torch.eye(len(sim), dtype=torch.bool)]`.

What jit traces has no boolean indices but those whose values are known as it traces. Such masks are: numpy makes them.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import libcst as cst
import numpy as np

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Device, Kind, Number
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.scope import Scope
from migrate.lowering.unit import StaticParts
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import AnyNode, Expr, Statement
from migrate.syntax.walking import every

_OF_SIZES = frozenset(f"torch.{name}" for name in ("eye", "arange", "ones", "zeros", "full"))
_OF_TENSORS = frozenset(f"torch.{name}" for name in ("cat", "stack", "tril", "triu", "diag", "logical_not"))
_TYPES = ("torch.bool", "torch.float", "torch.float32", "torch.long", "torch.int", "torch.int64", "torch.uint8")
_METHODS = frozenset({"unsqueeze", "squeeze", "view", "reshape", "repeat", "expand", "t", "flatten", "contiguous"})
_CASTS = frozenset({"float", "bool", "long", "int", "to", "cuda", "cpu", "type"})
BY_DATA = "a boolean mask as index has a shape that depends on the data"


class StaticMasks(Scope):
    """Masks of which the function at hand shows that they go by shapes alone."""

    def is_static_mask(self, index: Expr) -> bool:
        """Whether an index is such a mask."""
        return index in self.static_parts().indices

    def makes_static_mask(self, statement: Statement) -> bool:
        """Whether a statement makes such a mask, or what one is made of."""
        return statement in self.static_parts().statements

    def static_parts(self) -> StaticParts:
        """What the function at hand has of them."""
        if self.facts is None or "]" not in self.unit.source.text:
            return StaticParts()
        node = self.facts.node
        key = (id(node), self.scope)
        if key not in self.unit.static_masks:
            self.unit.static_masks[key] = self.find_static(suites.suite_of(node.body.body))
        return self.unit.static_masks[key]

    def worked_out(self, node: AnyNode, original: cst.CSTNode) -> AnyNode:
        """What stands for code of such masks, in numpy; the numbers that it goes by are known to jit."""
        for path in usage.paths(original):
            name = nodes.expression(path)
            if type(self.kind_of(name)) in (Kind, Number):
                need_value(self, name)
        return nodes.visited(node, _InNumpy())

    def find_static(self, body: Sequence[Statement]) -> StaticParts:
        """What a suite has of them: of the statements, those that its masks need."""
        static: set[str] = set()
        booleans: set[str] = set()
        making: list[tuple[Statement, str, Expr]] = []
        found = StaticParts()
        for line in body:
            simple = isinstance(line, cst.SimpleStatementLine)
            for part in every(line, cst.Subscript) if simple else ():
                index = part.slice[0].slice if len(part.slice) == 1 else None
                told = index.value if isinstance(index, cst.Index) else None
                if told is not None and self.is_static(told, static) and _is_bool(told, booleans):
                    found.indices.add(told)
            name, value = suites.name_and_value(line)
            if value is not None and self.is_static(value, static):
                making.append((line, name, value))
                static.add(name)
                booleans = booleans | {name} if _is_bool(value, booleans) else booleans - {name}
            else:
                static -= set(usage.stores(line))
        wanted = {name for index in found.indices for name in usage.loads(index)}
        for line, name, value in reversed(making):
            if name in wanted:
                found.statements.add(line)
                wanted |= set(usage.loads(value))
        return found

    def is_static(self, node: Expr, static: set[str]) -> bool:
        """Whether an expression goes by numbers and shapes alone."""

        def again(each: Expr) -> bool:
            return self.is_static(each, static)

        if nodes.literal(node) is not ... or nodes.code(node) in _TYPES:
            return True
        match node:
            case cst.Name(value=name):
                return name in static or isinstance(self.kind_of(node), Number | Device)
            case cst.Attribute(attr=cst.Name(value="shape" | "device")):
                return True
            case cst.Attribute():
                return isinstance(self.kind_of(node), Number | Device)
            case cst.Subscript(value=value, slice=parts):
                indices = [part.slice.value for part in parts if isinstance(part.slice, cst.Index)]
                return again(value) and len(indices) == len(parts) and all(map(again, indices))
            case cst.UnaryOperation(expression=inner):
                return again(inner)
            case cst.BinaryOperation(left=left, right=right):
                return again(left) and again(right)
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(comparator=right)]):
                return again(left) and again(right)
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                return all(again(one.value) for one in elements)
            case cst.ListComp(elt=elt, for_in=cst.CompFor(target=cst.Name(value=turn), iter=each, inner_for_in=None)):
                return again(each) and self.is_static(elt, static | {turn})
            case cst.Call(func=func, args=args):
                return self.is_static_call(func, args, static)
        return False

    def is_static_call(self, func: Expr, args: Sequence[cst.Arg], static: set[str]) -> bool:
        """The same of a call: of torch's, of a method, of a size."""
        if isinstance(func, cst.Attribute) and func.attr.value == "size":
            return all(self.is_static(arg.value, static) for arg in args)
        name = self.torch_name(func) or ""
        if nodes.dotted(func) == "len":
            return len(args) == 1
        given = [arg for arg in args if arg.keyword is None or arg.keyword.value != "device"]
        sizes = name in _OF_SIZES or nodes.dotted(func) == "range"
        method = func.attr.value if isinstance(func, cst.Attribute) else ""
        placed = method in _CASTS and not name  # `.to(self.args.device)`
        told = [
            self.is_static(arg.value, static) or ((sizes or placed) and self.is_setting(arg.value)) for arg in given
        ]
        if not all(told) or any(arg.star for arg in given):
            return False
        if sizes or name in _OF_TENSORS:
            return True
        return isinstance(func, cst.Attribute) and method in _METHODS | _CASTS and self.is_static(func.value, static)

    def is_setting(self, node: Expr) -> bool:
        """Whether an argument that is a size, or a device, may be a setting: `self.args.batch_size`."""
        return isinstance(node, cst.Attribute) and nodes.dotted(node) is not None and type(self.kind_of(node)) is Kind


def _is_bool(node: Expr, booleans: set[str]) -> bool:
    """Whether what goes by shapes alone is boolean, as it is written."""
    match node:
        case cst.Name(value=name):
            return name in booleans
        case cst.UnaryOperation(operator=cst.BitInvert()) | cst.Comparison():
            return True
        case cst.BinaryOperation(left=left, operator=cst.BitAnd() | cst.BitOr() | cst.BitXor()):
            return _is_bool(left, booleans)
        case cst.Subscript(value=value):
            return _is_bool(value, booleans)
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value=method)), args=args):
            told = method == "bool" or any(nodes.code(arg.value) == "torch.bool" for arg in args)
            kept = method not in _CASTS - {"cuda", "cpu"} and _is_bool(value, booleans)
            return told or kept
    return False


class _InNumpy(cst.CSTTransformer):
    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if nodes.dotted(node.value) == "jnp" and not hasattr(np, node.attr.value):
            raise Unsupported("MIG302", BY_DATA)
        return True

    def visit_Call(self, node: cst.Call) -> bool:
        if isinstance(node.func, cst.Name) and not hasattr(builtins, node.func.value):
            raise Unsupported("MIG302", BY_DATA)
        return True

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        if original_node.value in ("jax", "nn"):
            raise Unsupported("MIG302", BY_DATA)
        return nodes.name("np") if original_node.value == "jnp" else updated_node

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
_OF_SHAPES = frozenset({"torch.ones_like", "torch.zeros_like"})
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
        text = self.unit.source.text
        if not ("]" in text or "masked_select" in text):
            return StaticParts()
        key = (id(self.own_body), self.scope)
        if key not in self.unit.static_masks:
            self.unit.static_masks[key] = self.find_static(suites.suite_of(self.own_body.body))
        return self.unit.static_masks[key]

    def worked_out(self, node: AnyNode, original: cst.CSTNode) -> AnyNode:
        """What stands for code of such masks, in numpy; the numbers that it goes by are known to jit. Raises
        Unsupported where a step takes what a mask is made of as an array."""
        made = {suites.name_and_value(one)[0] for one in self.static_parts().statements}
        parts = {name for name in made & set(usage.loads(original)) if not isinstance(self.kind_of_name(name), Number)}
        if self.region is not None and parts - self.region.inside:
            raise Unsupported("MIG302", BY_DATA)
        for path in usage.paths(original):
            name = nodes.expression(path)
            if type(self.kind_of(name)) in (Kind, Number):
                need_value(self, name)
        return nodes.visited(node, _InNumpy())

    def find_static(self, body: Sequence[Statement]) -> StaticParts:
        """What a suite has of them: of the statements, those that its masks need."""
        found, making = StaticParts(), list[tuple[Statement, str, Expr]]()
        self.collect_static(body, set(), set(), found, making)
        wanted = {name for index in found.indices for name in usage.loads(index)}
        for line, name, value in reversed(making):
            if name in wanted:
                found.statements.add(line)
                wanted |= set(usage.loads(value))
        return found

    def collect_static(
        self,
        body: Sequence[Statement],
        static: set[str],
        booleans: set[str],
        found: StaticParts,
        making: list[tuple[Statement, str, Expr]],
    ) -> None:
        """Collects such masks of a suite, and of those in it, and what gives names to them. `static`: the names of
        what goes by shapes alone so far, `booleans`: those of them that may be masks. A step in a loop takes what
        stands before the loop as arrays."""
        for line in body:
            name, value = suites.name_and_value(line)
            for told in self.masks_in(line) if isinstance(line, cst.SimpleStatementLine) else ():
                if self.is_static(told, static) and _is_bool(told, booleans):
                    found.indices.add(told)
            if value is not None and self.is_static(value, static):
                making.append((line, name, value))
                static.add(name)
                booleans = booleans | {name} if _is_bool(value, booleans) else booleans - {name}
                continue
            static -= set(usage.stores(line))
            around = (set(), set()) if isinstance(line, cst.For | cst.While) else ({*static}, booleans)
            for inner in every(line, cst.BaseSuite, closed=(cst.BaseSuite, cst.FunctionDef, cst.ClassDef)):
                self.collect_static(suites.suite_of(inner.body), *around, found, making)

    def masks_in(self, line: cst.SimpleStatementLine) -> list[Expr]:
        """What a statement takes as an index or selects by."""
        indices = [part.slice[0].slice for part in every(line, cst.Subscript) if len(part.slice) == 1]
        selections = map(self.selected_by, usage.calls(line)) if "masked_select" in self.unit.source.text else ()
        return [one.value for one in indices if isinstance(one, cst.Index)] + [one[1] for one in selections if one]

    def selected_by(self, call: cst.Call) -> tuple[Expr, Expr] | None:
        """What `x.masked_select(mask)` or `torch.masked_select(x, mask)` selects from, and the mask; None of other
        calls."""
        if any(arg.keyword or arg.star for arg in call.args):
            return None
        given = [arg.value for arg in call.args]
        if self.torch_name(call.func) != "torch.masked_select":
            if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "masked_select":
                return None
            given.insert(0, call.func.value)
        return (given[0], given[1]) if len(given) == 2 else None

    def is_static(self, node: Expr, static: set[str]) -> bool:
        """Whether an expression goes by numbers and shapes alone."""

        def again(each: Expr) -> bool:
            return self.is_static(each, static)

        if nodes.literal(node) is not ... or nodes.code(node) in _TYPES:
            return True
        match node:
            case cst.Name(value=name):
                return name in static or isinstance(self.kind_of(node), Number | Device) or self.is_number_below(name)
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

    def is_number_below(self, name: str) -> bool:
        """Whether a name of the file, whose masks are looked for before its first statement, is a number for good."""
        last = self.script.finals.get(self.unit.scope, {}).get(name)
        return self.facts is None and name in self.unit.constants and isinstance(last, Number)

    def is_static_call(self, func: Expr, args: Sequence[cst.Arg], static: set[str]) -> bool:
        """The same of a call: of torch's, of a method, of a size."""
        if isinstance(func, cst.Attribute) and func.attr.value == "size":
            return all(self.is_static(arg.value, static) for arg in args)
        name = self.torch_name(func) or ""
        if nodes.dotted(func) == "len":
            return len(args) == 1
        if name in _OF_SHAPES:
            return len(args) == 1 and nodes.dotted(args[0].value) is not None
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

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        function = (nodes.dotted(updated_node.func) or "").removeprefix("np.")
        if function not in ("ones_like", "zeros_like"):
            return updated_node
        shape = cst.Attribute(nodes.parenthesized(updated_node.args[0].value), cst.Name("shape"))
        return nodes.call(f"np.{function.removesuffix('_like')}", shape)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        if original_node.value in ("jax", "nn"):
            raise Unsupported("MIG302", BY_DATA)
        return nodes.name("np") if original_node.value == "jnp" else updated_node

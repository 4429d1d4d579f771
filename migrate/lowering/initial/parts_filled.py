"""Initial values of a part of a weight: `self.emb.weight.data[0] = 0`, `self.lstm.bias_hh_l0.data[n:2 * n].fill_(1)`.

The initialiser is that which the weight has so far, with the part set in what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Number, Tensor
from migrate.layers.moves import Move, Permute
from migrate.lowering.initial.host_initializers import DEEP
from migrate.lowering.initial.initial_weights import InitialWeights, moves_of
from migrate.lowering.initial.initializers_of_flax import filling, set_so_far, without_data
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement


class PartsFilled(InitialWeights):
    """Parts of weights, set by a constructor."""

    def part_statement(self, small: cst.BaseSmallStatement) -> list[Statement] | None:
        """Lowers a statement of a constructor that sets a part of a weight; None for any other: one that puts a layer
        into a list of layers is another."""
        value = small.value if isinstance(small, cst.Assign) else None
        if isinstance(value, cst.Call) and self.is_maker(value.func):
            return None
        call = part_filled(small) if self.context == "setup" else None
        if call is not None and isinstance(small, cst.AugAssign) and self._is_weight(small.target):
            return self.changed_whole(call, small.target)
        target = None if call is None else weight_in_part(self.filled_part(call))
        if call is None or target is None or not (nodes.dotted(target) or "").startswith("self."):
            return None
        if "." not in (nodes.dotted(target) or "").removeprefix("self.") and not self._is_parameter(target):
            return None
        way, path = self.weight_path(target)
        moved = transposes(moves_of(way, path), call)
        made = self.in_terms_of_fields(self.set_in_part(self.without_variables(call), moved), call, path)
        self.note_asked(way, path, made, call, nodes.dotted(target) or "")
        return []

    def changed_whole(self, call: cst.Call, target: Expr) -> list[Statement]:
        """`self.fc.weight *= 0.1`."""
        made = self.scale(call, without_data(target))
        if made is None:
            raise Unsupported("MIG204", f"`{nodes.code(call)}`")
        return made

    def _is_weight(self, target: Expr) -> bool:
        """Whether an expression is a weight of a layer that the constructor has made."""
        bare = without_data(target)
        if not isinstance(bare, cst.Attribute) or (nodes.dotted(bare) or "").count(".") < 2:
            return False
        with suppress(Unsupported):
            way, path = self.weight_path(bare)
            return path in way.owner.askable
        return False

    def _is_parameter(self, target: Expr) -> bool:
        return (nodes.dotted(target) or "").removeprefix("self.") in self.script.classes[self.cls].parameters

    def filled_part(self, call: cst.Call) -> Expr | None:
        """The part of a weight that a call fills with one value or a tensor; None of other calls."""
        func = call.func
        changes = isinstance(func, cst.Attribute) and func.attr.value in _CHANGING and len(call.args) == 1
        found = ("", func.value) if changes and isinstance(func, cst.Attribute) else filling(self, call)
        return found[1] if found is not None and isinstance(found[1], cst.Subscript) else None

    def without_variables(self, call: cst.Call) -> cst.Call:
        """A call with what variables of the method stand for in their place, so far as they are known."""
        own = {name: value for name, value in self.env.definitions.items() if name not in self.walked}
        for _ in range(DEEP):
            read = {name: nodes.parenthesized(own[name]) for name in usage.loads(call) if name in own}
            if not read:
                break
            call = nodes.substituted(call, read)
            self.restated |= read.keys()
        return call

    def set_in_part(self, call: cst.Call, moved: bool) -> Expr:
        """The initialiser that a weight has after a call. `moved`: Flax has it transposed."""
        part = self.filled_part(call)
        assert isinstance(part, cst.Subscript)
        found = filling(self, call)
        name = found[0].removesuffix("_") if found is not None else ""
        if name not in _VALUES:
            raise Unsupported("MIG204", f"`{nodes.code(call)}` draws a part of a weight")
        given = [arg.value for arg in call.args if arg.value is not part]
        value = self.expr(given[0] if given else _VALUES[name])
        if not isinstance(value.kind, Number):
            value = self.as_array(value)
        if not isinstance(value.kind, Number | Tensor):
            raise Unsupported("MIG204", f"`{nodes.code(call)}`: {nodes.code(given[0])} is not known to be a tensor")
        index = [element.visit(_OwnLength(weight_in_part(part))) for element in part.slice]
        plain = [one for one in index if isinstance(one, cst.SubscriptElement)]
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return set_so_far(plain, _CHANGING.get(method, "set"), layouts.first(value), moved)


def transposes(moves: Sequence[Move], call: cst.Call) -> bool:
    """Whether Flax has the transpose of a weight. Raises Unsupported where its axes are moved otherwise."""
    if moves and tuple(moves) != (Permute((1, 0)),):
        raise Unsupported("MIG204", f"`{nodes.code(call)}`: Flax has the axes of this weight in another order")
    return bool(moves)


# Methods that change a tensor in place by another one, and what they are of `.at`.
_CHANGING = {"copy_": "set", "mul_": "multiply", "div_": "divide", "add_": "add", "sub_": "subtract"}
_VALUES: Mapping[str, Expr] = {
    "": cst.Integer("0"),
    "constant": cst.Integer("0"),
    "zeros": cst.Integer("0"),
    "ones": cst.Integer("1"),
}


def part_filled(small: cst.BaseSmallStatement) -> cst.Call | None:
    """A statement that may set a part of a weight, as a call: `w[i].copy_(v)` for `w[i] = v`; None of others."""
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        return small.value
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    if isinstance(small, cst.Assign) and isinstance(target, cst.Subscript):
        return nodes.method(target, "copy_", small.value)
    method = _AUGMENTED.get(type(small.operator)) if isinstance(small, cst.AugAssign) else None
    return nodes.method(small.target, method, small.value) if method and isinstance(small, cst.AugAssign) else None


_AUGMENTED: Mapping[type[cst.BaseAugOp], str] = {
    cst.MultiplyAssign: "mul_",
    cst.DivideAssign: "div_",
    cst.AddAssign: "add_",
    cst.SubtractAssign: "sub_",
}


def weight_in_part(part: Expr | None) -> Expr | None:
    """`w` of `w.data[i]`; None where that is no attribute or name."""
    weight = without_data(part.value) if isinstance(part, cst.Subscript) else None
    return weight if weight is not None and nodes.dotted(weight) is not None else None


class _OwnLength(cst.CSTTransformer):
    """`shape[0]` for the length of a weight, as its initialiser has it."""

    def __init__(self, weight: Expr | None) -> None:
        super().__init__()
        path = nodes.dotted(weight) if weight is not None else None
        of = [f"{path}", f"{path}.data"]
        self.lengths = {text for one in of for text in (f"{one}.size(0)", f"{one}.shape[0]", f"len({one})")}

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # pyright: ignore
        made = super().on_leave(original_node, updated_node)
        written = isinstance(original_node, cst.Call | cst.Subscript) and nodes.code(original_node) in self.lengths
        return nodes.expression("shape[0]") if written else made  # pyright: ignore[reportReturnType]


def settled_lengths(pairs: Sequence[tuple[Expr, Expr]], weight: str, known: Mapping[str, Expr]) -> dict[str, Expr]:
    """Variables that stand for lengths of a weight, with what they stand for; none where one is anything else.
    `known`: those before them."""
    found = dict(known)
    for target, value in pairs:
        whole = nodes.substituted(value, {name: nodes.parenthesized(one) for name, one in found.items()})
        plain = all(name == weight for name in usage.loads(whole) if name not in ("len", "int"))
        if not isinstance(target, cst.Name) or not plain:
            return {}
        found[target.value] = whole
    return found if pairs else {}

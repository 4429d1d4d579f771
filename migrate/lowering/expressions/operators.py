"""Operators: values that meet in one agree on where their channels are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    BY_WEIGHT,
    SOME_AXES,
    UNKNOWN,
    Autocast,
    Device,
    Host,
    Items,
    Kind,
    Model,
    Number,
    Plain,
    RunningOptions,
    Tensor,
    TorchName,
    is_batch,
    join,
)
from migrate.known.weight_kinds import WEIGHT_NAME, Weight
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import repeated
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.expressions.packed_elements import refuse_rows
from migrate.lowering.expressions.scalars import is_indexed_by_numbers
from migrate.lowering.expressions.small_addends import kept_apart
from migrate.lowering.expressions.typed_tensors import TENSOR_TYPES, tensor_type
from migrate.lowering.expressions.wide_numbers import narrow
from migrate.lowering.modules.given_lists import GivenLists, type_compared
from migrate.lowering.modules.settings_given import never_taken
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.branches import Branches
from migrate.lowering.unit import stays
from migrate.lowering.weights.weight_trees import of_leaves
from migrate.optimizers import OPTIMIZERS, RUNNING
from migrate.rules.rule import Value, power_of_integers, signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

_BITWISE = (cst.BitAnd, cst.BitOr, cst.BitXor)
_COMPARISONS_OF_IDENTITY = (cst.Is, cst.IsNot, cst.In, cst.NotIn)


class Operators(GivenLists, Branches):
    """Operators."""

    def expr_BinaryOperation(self, node: cst.BinaryOperation) -> Value:
        left, right = self.expr(node.left), self.expr(node.right)
        refuse_rows(node, left, right)
        if isinstance(node.operator, cst.FloorDivide | cst.Modulo):
            self.note_type(node.left, "int")
            self.note_type(node.right, "int")
        if isinstance(node.operator, cst.Modulo):
            right = self.formatted(node.left, right)
        if isinstance(node.operator, cst.Multiply) and is_indexed_by_numbers(left):
            right = self.as_scalar(right)
        hosts = [value for value in (left, right) if isinstance(value.kind, Host)]
        if hosts:
            if any(isinstance(value.kind, Tensor) for value in (left, right)):
                left, right = self.beside_array(left), self.beside_array(right)
            else:
                return Value(node.with_changes(left=left.node, right=right.node), Host("tensor"))
        if isinstance(node.operator, cst.MatrixMultiply):
            left, right = Value(layouts.first(left), left.kind), Value(layouts.first(right), right.kind)
        if isinstance(node.operator, cst.Multiply) and Items in (type(left.kind), type(right.kind)):
            need_value(self, right.node if isinstance(left.kind, Items) else left.node)
        together = self.put_together(node, left, right)
        if together is not None:
            whole = _arithmetic(node.operator, left.kind, right.kind)
            return Value(together, whole if isinstance(whole, Items) else Items())
        left, right = self.narrow_operands([left, right])
        if isinstance(node.operator, cst.Add | cst.Subtract):
            left, right = kept_apart(self, node.left, node.right, left), kept_apart(self, node.right, node.left, right)
        left, right = layouts.agree([left, right])
        layout = "last" if "last" in (left.layout, right.layout) else "first"
        made: Expr = node.with_changes(left=_operand(node.left, left.node), right=_operand(node.right, right.node))
        if isinstance(node.operator, cst.Power) and power_of_integers(left.kind, right.kind):
            made = with_snippets(self, nodes.call("power", left.node, right.node), ["power"])
        several = repeated(node, left.kind) if isinstance(node.operator, cst.Multiply) else None
        return Value(made, several or _arithmetic(node.operator, left.kind, right.kind), layout)

    def expr_UnaryOperation(self, node: cst.UnaryOperation) -> Value:
        value = self.expr(node.expression)
        refuse_rows(node, value)
        if isinstance(node.operator, cst.Not) and isinstance(value.kind, Tensor) and self.under_jit:
            return Value(nodes.expression("jnp.logical_not({x})", x=layouts.first(value)), Tensor("bool", 0))
        kind = Number() if isinstance(node.operator, cst.Not) else value.kind
        return Value(node.with_changes(expression=_operand(node.expression, value.node)), kind, value.layout)

    def expr_BooleanOperation(self, node: cst.BooleanOperation) -> Value:
        decided = self.of_what_is_gone(node.left)
        if decided is not None:  # the left side alone decides `False and x`, and says nothing in `False or x`
            says_all = decided is isinstance(node.operator, cst.Or)
            return Value(nodes.name(str(decided)), Number()) if says_all else self.expr(node.right)
        left = self.expr(node.left)
        with self.conditionally():
            right = self.expr(node.right)
        made = node.with_changes(
            left=_operand(node.left, layouts.first(left)), right=_operand(node.right, layouts.first(right))
        )
        if isinstance(left.kind, Device) or isinstance(right.kind, Device):
            return Value(made, Device())
        if self.under_jit and isinstance(left.kind, Tensor) and isinstance(right.kind, Tensor | Number):
            return self.traced_connective(node, left, right)
        return Value(made, join(left.kind, right.kind))

    def traced_connective(self, node: cst.BooleanOperation, left: Value, right: Value) -> Value:
        """`a and b` where a is a tensor of which jit knows no value."""
        function = "jnp.logical_and" if isinstance(node.operator, cst.And) else "jnp.logical_or"
        if any(isinstance(value.kind, Tensor) and value.kind.dtype != "bool" for value in (left, right)):
            raise stays(node, "the truth of a tensor that is not boolean")
        made = nodes.call(function, layouts.first(left), layouts.first(right))
        return Value(made, Tensor("bool"))

    def expr_Comparison(self, node: cst.Comparison) -> Value:
        told = self.told_of_torch(node)
        if told is not None:
            return told
        flag = _compared_flag(node)
        if flag is not None:
            return self.expr(flag)
        of_lists = type_compared(self, node)
        if of_lists is not None:
            return self.expr(of_lists)
        left = self.class_itself(node.left)
        values = [left] + [self.class_itself(target.comparator) for target in node.comparisons]
        if any(isinstance(value.kind, Device) for value in values):
            left, *_ = values = [self.as_backend(value) for value in values]
        self.use(node.left, left)
        refuse_rows(node, *values)
        self.refuse_makers_apart(node)
        values = [of_leaves(value, node) for value in values]
        by_weight = isinstance(values[-1].kind, Items) and values[-1].kind.type == BY_WEIGHT
        if any(value.kind == WEIGHT_NAME for value in values) and not by_weight:
            raise Unsupported("MIG302", f"`{nodes.code(node)}`, a test of the name of a weight, which is Flax's in JAX")
        if any(isinstance(value.kind, Tensor) for value in values):
            values = [self.beside_array(value) for value in values]
        identity = any(isinstance(target.operator, _COMPARISONS_OF_IDENTITY) for target in node.comparisons)
        kind: Kind = Number()
        if not identity:
            tensor = next((value.kind for value in values if isinstance(value.kind, Tensor)), None)
            if tensor is not None:
                kind = replace(tensor, dtype="bool")
            elif any(isinstance(value.kind, Host) for value in values):
                kind = Host("tensor")
            elif any(value.kind == UNKNOWN for value in values):  # arrays of numpy's, perhaps
                kind = UNKNOWN
        if len(values) > 2 and isinstance(kind, Tensor) and self.under_jit:
            raise stays(node, "a chain of comparisons")
        if any(isinstance(value.kind, Device) for value in values):
            values = [_as_backend(value) for value in values]
        values = self.narrow_operands(values)
        targets = [
            target.with_changes(comparator=_operand(target.comparator, layouts.first(value)))
            for target, value in zip(node.comparisons, values[1:], strict=True)
        ]
        return Value(node.with_changes(left=_operand(node.left, layouts.first(values[0])), comparisons=targets), kind)

    def beside_array(self, value: Value) -> Value:
        """An operand of one of JAX's: what the data loading holds may be a tensor of torch's, with which those are
        neither reckoned nor compared."""
        held = isinstance(value.kind, Host) and value.kind.what == "data"
        if held and self.context in HOST_CONTEXTS and self.region is None:
            return Value(self.taken_in(value.node), Tensor())
        return self.as_array(value)

    def narrow_operands(self, values: Sequence[Value]) -> list[Value]:
        """Operands, with whole numbers that JAX has no bits for as floats beside floats."""
        kinds = [value.kind for value in values]
        if not any(isinstance(kind, Tensor) for kind in kinds):
            return list(values)
        return [narrow(value, kinds, self.env.definitions) for value in values]

    def refuse_makers_apart(self, node: cst.Comparison) -> None:
        """Declines `norm_layer == nn.BatchNorm2d` where several files make the layer, each by a function of its own."""
        for written in [node.left, *(target.comparator for target in node.comparisons)]:
            own = self.layer_subclass_named(written)
            if own is not None and self.script.maker_files.get(own.name):
                raise Unsupported("MIG304", f"`{nodes.code(node)}`: as a value, this layer is what a function makes")
            name = self.torch_name(written)
            if name is not None and len(self.script.maker_files.get(name, ())) > 1:
                raise Unsupported("MIG304", f"`{nodes.code(node)}`: several files make this layer, by functions apart")

    def as_backend(self, value: Value) -> Value:
        """A device, or the name of one, in a comparison: devices are not passed to functions, and CUDA is "gpu"."""
        own = self.facts.parameter_names if self.facts is not None else []
        if isinstance(value.kind, Device) and nodes.dotted(value.node) in own:
            return Value(nodes.expression("jax.default_backend()"), Number())
        return Value(cst.SimpleString('"gpu"'), value.kind) if nodes.literal(value.node) == "cuda" else value

    def told_of_torch(self, node: cst.Comparison) -> Value | None:
        """`"fused" in inspect.signature(torch.optim.AdamW).parameters`, a question about torch's version: what is
        rewritten is there."""
        asked = node.comparisons[0].comparator
        function = asked.value if isinstance(asked, cst.Attribute) and asked.attr.value == "parameters" else None
        if not isinstance(function, cst.Call) or len(function.args) != 1 or len(node.comparisons) > 1:
            return None
        entry = OPTIMIZERS.get(self.torch_name(function.args[0].value) or "")
        operator, name = node.comparisons[0].operator, nodes.literal(node.left)
        if entry is None or nodes.dotted(function.func) not in ("inspect.signature", "signature"):
            return None
        there = any(parameter.name == name for parameter in signature(entry.signature))
        if not isinstance(name, str) or not isinstance(operator, cst.In | cst.NotIn):
            return None
        return Value(nodes.name(str(there == isinstance(operator, cst.In))), Number())

    def expr_IfExp(self, node: cst.IfExp) -> Value:
        options = [_keys(node.body), _keys(node.orelse)]
        if None not in options and set() < set().union(*(keys or () for keys in options)) <= RUNNING:
            return Value(node, RunningOptions())  # dict(fused=True) if fused else dict()
        decided = self.of_what_is_gone(node.test)
        if decided is not None:
            return self.expr(node.body if decided else node.orelse)
        with self.conditionally():
            body, orelse = self.expr(node.body), self.expr(node.orelse)
        if isinstance(body.kind, Device) or isinstance(orelse.kind, Device):
            return Value(node, Device())
        if {is_batch(body.kind), is_batch(orelse.kind)} == {True, False} and Tensor in (
            type(body.kind),
            type(orelse.kind),
        ):
            body, orelse = self.as_array(body), self.as_array(orelse)  # x.cuda() if cuda else x
            if nodes.code(body.node) == nodes.code(orelse.node) and usage.only_asks(node.test):
                return body
        named = [self.torch_name(side) or "" for side in (node.body, node.orelse)]
        types = sorted(tensor_type(name) for name in named)
        if types[0] and len({TENSOR_TYPES[name] for name in types}) == 1:  # cuda.FloatTensor if cuda else torch.Tensor
            placed = "cuda." if any(name.startswith("torch.cuda.") for name in named) else ""
            return Value(node, TorchName(f"torch.{placed}{types[0]}"))
        body, orelse = self.usable(body), self.usable(orelse)
        for value in (body, orelse):
            self.refuse_stateful(value.kind)
        asked = self.truth(node.test)
        self.use(node.test, asked)
        test = layouts.first(asked)
        if names_device(node.body) and names_device(node.orelse):
            return Value(nodes.expression("jax.default_backend()"), Device())
        if {type(body.kind), type(orelse.kind)} in ({Autocast, Plain}, {Autocast, Kind}):
            raise Unsupported("MIG302", f"{nodes.code(node)}: autocast or something else")
        if isinstance(asked.kind, Tensor) and self.under_jit:
            return self.traced_choice(node, asked, body, orelse)
        body, orelse = self.alike_in_layout(body, orelse)
        made = node.with_changes(test=_clause(test), body=_clause(layouts.first(body)), orelse=layouts.first(orelse))
        if (
            isinstance(body.kind, Model)
            and body.kind == orelse.kind
            and nodes.code(made.body) == nodes.code(made.orelse)
        ):
            return body  # model.module if distributed else model
        both = not any(nodes.is_literal(side, None) for side in (node.body, node.orelse))
        if both and self.context == "setup" and never_taken(self.script, self.cls, [node.test]):
            return Value(made, orelse.kind)
        return Value(made, join(body.kind, orelse.kind))


def _keys(node: Expr) -> set[object] | None:
    """The keys of a dict as it is written; None for other expressions."""
    if isinstance(node, cst.Dict) and all(isinstance(element, cst.DictElement) for element in node.elements):
        return {nodes.literal(element.key) for element in node.elements if isinstance(element, cst.DictElement)}
    if isinstance(node, cst.Call) and nodes.dotted(node.func) == "dict" and all(arg.keyword for arg in node.args):
        return {arg.keyword.value for arg in node.args if arg.keyword is not None}
    return None


def names_device(node: Expr | None) -> bool:
    """Whether a value is a string that names a device: `"cpu"`, `"cuda:0" if there else "cpu"`."""
    value = nodes.literal(node)
    if isinstance(node, cst.IfExp):
        return names_device(node.body) and names_device(node.orelse)
    return isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda", "mps", "xla", "xpu", "tpu", "gpu")


def _operand(original: Expr, node: Expr) -> Expr:
    """Keeps the user's own choice of parentheses unless the rewritten operand needs them."""
    return node if type(original) is type(node) else nodes.parenthesized(node)


def _clause(node: Expr) -> Expr:
    """What stands before an `else`: a choice has parentheses there."""
    return nodes.parenthesized(node) if isinstance(node, cst.IfExp) else node


def _as_backend(value: Value) -> Value:
    """What a device is compared with: JAX calls torch's "cuda" a "gpu"."""
    return replace(value, node=nodes.expression('"gpu"')) if nodes.is_literal(value.node, "cuda") else value


def _broadcast(tensors: Sequence[Tensor]) -> int:
    """The rank of what some tensors give, element by element."""
    if all(kind.rank >= 0 for kind in tensors):
        return max(kind.rank for kind in tensors)
    return SOME_AXES if any(kind.has_axes for kind in tensors) else -1


def _arithmetic(operator: cst.BaseBinaryOp, left: Kind, right: Kind) -> Kind:
    weights = [kind for kind in (left, right) if isinstance(kind, Weight)]
    if weights:
        return Tensor("float") if all(weight.axes for weight in weights) else Weight()
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        tensors = [kind for kind in (left, right) if isinstance(kind, Tensor)]
        dtype = "float" if any(kind.dtype == "float" for kind in tensors) or isinstance(operator, cst.Divide) else ""
        if isinstance(operator, _BITWISE) and len(tensors) == 2 and tensors[0].dtype == tensors[1].dtype:
            dtype = tensors[0].dtype
        rank = -1 if isinstance(operator, cst.MatrixMultiply) else _broadcast(tensors)
        origins = frozenset().union(*(kind.origins for kind in tensors))
        alike = len({kind.length for kind in tensors}) == 1 and not isinstance(operator, cst.MatrixMultiply)
        return Tensor(dtype, rank, origins=origins, length=tensors[0].length if alike else None)
    if isinstance(left, Number) and isinstance(right, Number):
        return Number()
    if isinstance(left, Items) and isinstance(operator, cst.Add):
        return Items(None, join(left.joined(), right.joined()), left.type) if isinstance(right, Items) else UNKNOWN
    if isinstance(left, Items) and isinstance(operator, cst.Multiply):
        return Items(None, left.joined(), left.type)
    if isinstance(left, Plain) and left.what == "str":
        return left
    return UNKNOWN


def _compared_flag(node: cst.Comparison) -> Expr | None:
    """`p.requires_grad` of `p.requires_grad == True`; None of other comparisons."""
    (target, *others) = node.comparisons
    asks = isinstance(node.left, cst.Attribute) and node.left.attr.value == "requires_grad"
    equal = isinstance(target.operator, cst.Equal | cst.Is)
    flag = nodes.literal(target.comparator)
    if not asks or others or not equal or not isinstance(flag, bool):
        return None
    return node.left if flag else cst.UnaryOperation(cst.Not(), nodes.parenthesized(node.left))

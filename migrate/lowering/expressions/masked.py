"""Selections by a boolean mask in what jit traces.

`x[mask]` has a shape that depends on the data, and is declined. What it comes down to has not: `x[mask].mean()` is
`x.mean(where=mask)`, `x[mask] = x[mask] * 2` is `x = jnp.where(mask, x * 2, x)`, and labels that a mask leaves out of a
cross entropy are labels to ignore.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.known.kinds import UNKNOWN, Host, Kind, Loss, Number, Tensor, is_batch
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.numpy_types import holds_bools
from migrate.lowering.expressions.static_masks import StaticMasks
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

# The methods, and the snippets for a mask with fewer axes.
_REDUCTIONS = {"sum": "masked_sum", "mean": "masked_mean", "max": "masked_max", "min": "masked_min"}
_STARTS = {"max": "-jnp.inf", "min": "jnp.inf"}  # what comes before the first element; of no element torch has none
_CASTS = ("float", "double", "half", "int", "long", "bool")
# Losses that take each element for itself, and have the mean of them by default.
_OF_ELEMENTS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
    )
)  # fmt: skip
_OF_LABELS = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")


class MaskedSelections(StaticMasks):
    """What is made of the elements that a mask selects."""

    def is_mask(self, node: Expr, value: Value) -> bool:
        """Whether an index is surely boolean: by its kind, or as it is written: `~` is not of places, and what torch's
        data loading gives is shown by a comparison alone."""
        written = self.env.definitions.get(node.value, node) if isinstance(node, cst.Name) else node
        if isinstance(value.kind, Tensor):
            inverted = isinstance(written, cst.UnaryOperation) and isinstance(written.operator, cst.BitInvert)
            typed = value.kind.dtype
            return typed == "bool" or (not typed and (inverted or holds_bools(self, node)))
        told = isinstance(value.kind, Host) and value.kind.dtype == "bool"
        return told or (isinstance(value.kind, Host) and isinstance(written, cst.Comparison))

    def is_constant_mask(self, node: Expr) -> bool:
        """Whether a mask is an attribute that the constructor alone sets: it is worked out there, with its values."""
        facts = self.script.classes.get(self.cls)
        init = facts.method("__init__") if facts is not None else None
        if self.context != "forward" or facts is None or init is None or not isinstance(node, cst.Attribute):
            return False
        name = node.attr.value
        own = name in facts.buffers or name in usage.attributes_set(init.body)
        if nodes.dotted(node.value) != "self" or not own or name in {*facts.fields, *facts.changed, *facts.parameters}:
            return False
        facts.concrete.add(f"self.{name}")
        return True

    def same_shape(self, written: Expr, mask: Value, whole: Expr, base: Value) -> bool:
        """Whether a mask surely has the shape of what it is the index of."""
        if isinstance(written, cst.Comparison):
            sides = [written.left, *(part.comparator for part in written.comparisons)]
            tensors = [side for side in sides if not isinstance(self.asked(side).kind, Number)]
            if all(nodes.code(side) == nodes.code(whole) for side in tensors):
                return True
        ranks = [value.kind.rank if isinstance(value.kind, Tensor) else -1 for value in (mask, base)]
        return ranks[0] == ranks[1] > 0

    def of_selection(self, node: cst.Call) -> Value | None:
        """A sum, a mean, an extreme or a loss of what a mask selects: `x[mask].mean()`; None of other calls."""
        if not self.under_jit:
            return None
        name = self.torch_name(node.func) or ""
        reduced = self.reduced_masked_select(node, name) or self.statically_selected(node)
        if reduced is not None or next(every(node, cst.Subscript), None) is None:
            return reduced
        loss = None if name else self.loss_called(node.func)
        function = name if loss is None else loss.function
        if function in _OF_LABELS and (loss is None or loss.ignored == -100):
            return self.of_selected_labels(node)
        if function in _OF_ELEMENTS and (loss is None or loss.options is not None):
            given = {key: nodes.expression(value) for key, value in (loss.options or () if loss is not None else ())}
            return self.of_selected_elements(node.with_changes(args=nodes.extended(node.args, given)), function)
        if isinstance(node.func, cst.Attribute) and not name and not node.args:
            return self.reduced_selection(node.func.value, [node.func.value], node.func.attr.value)
        if name.startswith("torch.") and len(node.args) == 1 and not node.args[0].star:
            return self.reduced_selection(node.args[0].value, [node.args[0].value], name.removeprefix("torch."))
        return None

    def loss_called(self, func: Expr) -> Loss | None:
        """The module that `criterion` and `self.criterion` are; None of anything else that is called."""
        path = (nodes.dotted(func) or "").split(".")
        own = path[0] == "self" and len(path) == 2 and f"{self.cls}.{path[1]}" not in self.script.functions
        kind = self.asked(func).kind if own else self.kind_of(func) if len(path) == 1 else UNKNOWN
        return kind if isinstance(kind, Loss) else None

    def of_selected_elements(self, node: cst.Call, name: str) -> Value | None:
        """A loss of elements that a mask selects: the mean or the sum of that of each; None of others. That the
        elements are put in other rows afterwards, `x[mask].view(-1, 4)`, does not matter."""
        options = {arg.keyword.value: nodes.literal(arg.value) for arg in node.args if arg.keyword is not None}
        reduction = options.pop("reduction", "mean")
        tensors = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
        if len(tensors) != 2 or len(tensors) + len(options) + ("reduction" in _keywords(node)) != len(node.args):
            return None
        if _reshaped(tensors[0]) == _reshaped(tensors[1]) != "":
            tensors = [_receiver(value) for value in tensors]
        others = [arg for arg in node.args if arg.keyword is not None and arg.keyword.value != "reduction"]
        none = nodes.arguments([], {"reduction": cst.SimpleString('"none"')})
        each = node.with_changes(args=[*nodes.arguments(tensors), *others, *none])
        return self.reduced_selection(each, tensors, str(reduction), name)

    def statically_selected(self, node: cst.Call) -> Value | None:
        """`x.masked_select(mask)` where the mask goes by shapes alone: a boolean index; None of other calls."""
        whole, mask = self.selected_by(node) or (None, None)
        if whole is None or mask is None or not self.is_static_mask(mask):
            return None
        if not isinstance(self.asked(whole).kind, Tensor):
            return None
        base, chosen = self.array(whole), self.expr(mask)
        index, x = self.worked_out(layouts.first(chosen), mask), nodes.parenthesized(layouts.first(base))
        if nodes.dotted(x) is None:
            return None
        if not layouts.rank(base) == layouts.rank(chosen) > 0:
            index = nodes.call("np.broadcast_to", index, nodes.expression("{x}.shape", x=x))
        dtype = base.kind.dtype if isinstance(base.kind, Tensor) else ""
        return Value(nodes.expression("{x}[{index}]", x=x, index=index), Tensor(dtype, 1))

    def reduced_masked_select(self, node: cst.Call, name: str) -> Value | None:
        """`x.masked_select(mask).sum()`, and its mean where the mask surely has as many axes; None of other calls."""
        called = [node.func.value] if isinstance(node.func, cst.Attribute) and not name else []
        given = [*called, *(arg.value for arg in node.args)]
        reduction = nodes.code(node.func).rpartition(".")[2]
        selected = given[0] if len(given) == 1 and reduction in _REDUCTIONS.keys() - _STARTS else None
        parts = self.selected_by(selected) if isinstance(selected, cst.Call) else None
        if parts is None or not isinstance(self.asked(parts[0]).kind, Tensor):
            return None
        whole, mask = self.array(parts[0]), self.array(parts[1])
        x, where = layouts.first(whole), layouts.first(mask)
        if layouts.rank(whole) == layouts.rank(mask) > 0:
            made = nodes.call(cst.Attribute(nodes.parenthesized(x), cst.Name(reduction)), where=where)
        elif reduction == "sum":
            made = nodes.expression("jnp.where({where}, {x}, 0).sum()", where=where, x=x)
        else:
            return None
        return Value(made, _reduced(whole.kind, reduction))

    def reduced_selection(
        self, each: Expr, operands: Sequence[Expr], reduction: str, function: str = ""
    ) -> Value | None:
        """A reduction of an elementwise expression of `operands`, which are selections; None where they are not.
        `function`: torch's, where the expression calls a module that stands for it."""
        found = [self.selections(operand) for operand in operands] if reduction in _REDUCTIONS else [None]
        parts = [part for some in found for part in some or ()]
        if None in found or not parts:
            return None
        told = self.alike(parts)
        if not told and not self.alike_in_losses(function, operands, parts):
            return None
        mask, written = _index(parts[0]), _whole(each, parts)
        whole = self.torch_call(function, cst.ensure_type(written, cst.Call)) if function else self.expr(written)
        selecting = self.array(mask)
        where, x = layouts.first(selecting), layouts.first(whole)
        if not told:
            one, other = (layouts.first(self.expr(part.value)) for part in parts)
            self.before.append(nodes.statement("assert {a}.shape == {b}.shape", a=one, b=other))
        if reduction in _STARTS and not (isinstance(whole.kind, Tensor) and whole.kind.dtype == "float"):
            return None
        if all(self.same_shape(mask, selecting, part.value, self.asked(part.value)) for part in parts):
            reduced = cst.Attribute(nodes.parenthesized(x), cst.Name(reduction))
            start = {"initial": nodes.expression(_STARTS[reduction])} if reduction in _STARTS else {}
            made = nodes.call(reduced, where=where, **start)
        else:
            self.unit.use_snippet(_REDUCTIONS[reduction])
            made = nodes.call(_REDUCTIONS[reduction], x, where)
        return Value(made, _reduced(whole.kind, reduction))

    def of_selected_labels(self, node: cst.Call) -> Value | None:
        """`F.cross_entropy(x[mask], y[mask])`: labels that the mask leaves out are to be ignored. None for others."""
        given = [arg.value for arg in node.args[:2]]
        parts = [part for value in given if (part := self.perhaps_selected(value)) is not None]
        options = {arg.keyword.value: nodes.literal(arg.value) for arg in node.args[2:] if arg.keyword is not None}
        if parts != given or len(parts) != 2 or len(options) != len(node.args) - 2 or "ignore_index" in options:
            return None
        if options.get("reduction", "mean") not in _REDUCTIONS or _mask_in(parts[0]) != _mask_in(parts[1]):
            return None
        mask, (scores, labels) = _index(parts[0]), (part.value for part in parts)
        known = self.asked(labels)
        if nodes.code(labels) == nodes.code(scores):
            return None
        asked = self.asked(mask)
        if not self.is_mask(mask, asked) or not self.same_shape(mask, asked, labels, known):
            return self.of_either(node, scores, labels, mask)
        out = {"left_out": _negated(mask), "y": labels, "x": scores}
        kept, flat = nodes.expression("{y}.masked_fill({left_out}, -100)", **out), scores
        if layouts.rank(known) != 1:  # the classes are the last axis of scores, and axis 1 of those that are selected
            kept = nodes.expression("{kept}.reshape(-1)", kept=kept)
            flat = nodes.expression("{x}.reshape(-1, {x}.shape[-1])", **out)
        args = [arg.with_changes(value=value) for arg, value in zip(node.args[:2], (flat, kept), strict=True)]
        return self.expr(node.with_changes(args=[*args, *node.args[2:]]))

    def of_either(self, node: cst.Call, scores: Expr, labels: Expr, index: Expr) -> Value | None:
        """The same of an index that is a mask or not, or of labels with as many axes as it or not, as they will
        tell."""
        given = [self.asked(each) for each in (scores, labels, index)]
        if not all(isinstance(value.kind, Tensor) or is_batch(value.kind) for value in given):
            return None
        whole = [arg.with_changes(value=value) for arg, value in zip(node.args[:2], (scores, labels), strict=True)]
        loss = self.expr(node.with_changes(args=[*whole, *node.args[2:]]))
        values = [layouts.first(self.array(each)) for each in (scores, labels, index)]
        called = loss.node if isinstance(loss.node, cst.Call) else None
        if called is None or [nodes.code(arg.value) for arg in called.args[:2]] != list(map(nodes.code, values[:2])):
            return None
        both = cst.Arg(with_snippets(self, nodes.call("selected", *values), ["selected"]), star="*")
        rest = nodes.separated(called.args[2:])
        return replace(loss, node=called.with_changes(args=nodes.separated([both, *rest])))

    def perhaps_selected(self, node: Expr) -> cst.Subscript | None:
        """An expression that is a selection by a mask, or by what is called one and may be one."""
        index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
        if not isinstance(node, cst.Subscript) or not isinstance(index, cst.Index):
            return None
        asked = self.asked(index.value)
        untold = isinstance(asked.kind, Tensor) and not asked.kind.dtype
        named = "mask" in (nodes.dotted(index.value) or "").rpartition(".")[2].lower()
        return node if self.is_mask(index.value, asked) or (untold and named) else None

    def selections(self, node: Expr) -> list[cst.Subscript] | None:
        """The selections `x[mask]` in an expression that takes each of their elements for itself; None for other
        expressions."""
        if isinstance(node, cst.Subscript):
            index = node.slice[0].slice if len(node.slice) == 1 else None
            if not isinstance(index, cst.Index) or isinstance(index.value, cst.Tuple | cst.List):
                return None
            return [node] if self.is_mask(index.value, self.asked(index.value)) else None
        if isinstance(node, cst.UnaryOperation):
            return None if isinstance(node.operator, cst.Not) else self.selections(node.expression)
        if isinstance(node, cst.BinaryOperation):
            matrix = isinstance(node.operator, cst.MatrixMultiply)
            return None if matrix else self.all_selections([node.left, node.right])
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self.all_selections([node.left, node.comparisons[0].comparator])
        if isinstance(node, cst.Call) and not any(arg.star for arg in node.args):
            return self.selections_in_call(node)
        plain = isinstance(node, cst.Name | cst.Attribute | cst.Integer | cst.Float | cst.SimpleString)
        return [] if plain and is_scalar(self.asked(node)) else None

    def selections_in_call(self, node: cst.Call) -> list[cst.Subscript] | None:
        """Those in the call of a function or a method that takes each element for itself."""
        given = [arg.value for arg in node.args]
        name = self.torch_name(node.func)
        if name is not None:
            return self.all_selections(given) if name in RULES and RULES[name].elementwise else None
        if not isinstance(node.func, cst.Attribute):
            return None
        method = node.func.attr.value
        rule = RULES.get(f"Tensor.{method}")
        if method in _REDUCTIONS and not given and self.selections(node.func.value) is None:
            return [] if is_scalar(self.asked(node)) else None
        elementwise = method in _CASTS or (rule is not None and rule.elementwise and not method.endswith("_"))
        return self.all_selections([node.func.value, *given]) if elementwise else None

    def all_selections(self, parts: Sequence[Expr]) -> list[cst.Subscript] | None:
        """The selections in several expressions; None where one of them has something else."""
        found = [self.selections(part) for part in parts]
        return None if None in found else [part for some in found for part in some or ()]

    def alike(self, parts: Sequence[cst.Subscript]) -> bool:
        """Whether selections are by one mask, and of tensors with as many axes: of others the whole tensors would
        broadcast where the selected elements do not."""
        bases = {nodes.code(part.value): layouts.rank(self.asked(part.value)) for part in parts}
        one = len({_mask_in(part) for part in parts}) == 1
        return one and (len(bases) == 1 or (all(bases.values()) and len(set(bases.values())) == 1))

    def alike_in_losses(self, function: str, operands: Sequence[Expr], parts: Sequence[cst.Subscript]) -> bool:
        """Whether a loss takes two selections by one mask as they are, of which it is to be seen as it runs whether
        they are of tensors of one shape."""
        both = len(parts) == 2 and list(parts) == list(operands) and len({_mask_in(part) for part in parts}) == 1
        return bool(function) and both and not self.nested and not self.conditional

    def whole_of(self, value: Expr, target: cst.Subscript) -> Expr | None:
        """What `x[mask] = value` puts in, of whole tensors, where the value is made of selections by the same mask."""
        parts = self.selections(value) if self.under_jit else None
        masks = {_mask_in(part) for part in (target, *parts)} if parts else set()
        return _whole(value, parts) if parts and len(masks) == 1 and self.alike(parts) else None


def _reshaped(node: Expr) -> str:
    """How an expression is reshaped, as it is written: "view(-1, 4)"; "" where it is not."""
    func = node.func if isinstance(node, cst.Call) else None
    if not isinstance(func, cst.Attribute) or func.attr.value not in ("view", "reshape", "flatten", "contiguous"):
        return ""
    return nodes.code(node).removeprefix(nodes.code(func.value))


def _receiver(node: Expr) -> Expr:
    return cst.ensure_type(cst.ensure_type(node, cst.Call).func, cst.Attribute).value


def _keywords(node: cst.Call) -> list[str]:
    return [arg.keyword.value for arg in node.args if arg.keyword is not None]


def _index(part: cst.Subscript) -> Expr:
    index = part.slice[0].slice
    assert isinstance(index, cst.Index)
    return index.value


def _mask_in(part: cst.Subscript) -> str:
    return nodes.code(part.with_changes(value=cst.Name("_"), lpar=[], rpar=[]))


def is_scalar(value: Value) -> bool:
    """Whether a value is a number, or a tensor that surely has no axes."""
    return isinstance(value.kind, Number) or (isinstance(value.kind, Tensor) and value.kind.rank == 0)


def _negated(mask: Expr) -> Expr:
    """`y == -1` for `y != -1`, `~mask` for others."""
    if isinstance(mask, cst.Comparison) and isinstance(mask.comparisons[0].operator, cst.NotEqual):
        return mask.with_changes(comparisons=[mask.comparisons[0].with_changes(operator=cst.Equal())])
    return nodes.expression("~{mask}", mask=mask)


def _whole(node: Expr, parts: Sequence[cst.Subscript]) -> Expr:
    """An expression of selections, written of the whole tensors."""
    return nodes.visited(node, _Whole({nodes.code(part) for part in parts}))


class _Whole(cst.CSTTransformer):
    def __init__(self, parts: set[str]) -> None:
        super().__init__()
        self.parts = parts

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        selected = nodes.code(original_node) in self.parts
        return nodes.parenthesized(updated_node.value) if selected else updated_node


def _reduced(kind: Kind, reduction: str) -> Tensor:
    """The kind of a sum, a mean or an extreme of some elements."""
    dtype = "float" if reduction == "mean" else kind.dtype if isinstance(kind, Tensor) else ""
    return Tensor("int" if dtype == "bool" else dtype, 0)

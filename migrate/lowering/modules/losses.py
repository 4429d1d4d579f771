"""Loss modules: functions in the output."""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Loss, PackedElements, Tensor
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.packed_elements import of_packed, rows_of
from migrate.lowering.models.precision import Precision
from migrate.optimizers import LOSSES
from migrate.rules.catalogue import RULES
from migrate.rules.losses import reduction_of
from migrate.rules.rule import Value
from migrate.syntax import nodes

_MODULES = {
    "torch.nn.functional.cross_entropy": "torch.nn.CrossEntropyLoss",
    "torch.nn.functional.nll_loss": "torch.nn.NLLLoss",
}


class Losses(Precision):
    """Loss modules: constructors and calls."""

    def loss(self, name: str, node: cst.Call) -> Value:
        """A loss module: the function that it stands for."""
        rule = RULES[LOSSES[name]]
        takes = tuple(p.name for p in rule.parameters if p.default is None)
        parameters = [p for p in rule.parameters if p.name not in takes]
        if name == "torch.nn.CrossEntropyLoss":
            order = ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
            parameters.sort(key=lambda p: order.index(p.name))
        call = self.bind_call(name, parameters, node.args)
        names = ["outputs", "targets"] if takes == ("input", "target") else list(takes)
        kinds = {"target": Tensor()}
        given = {
            torch: Value(cst.Name(name), kinds.get(torch, Tensor("float")))
            for torch, name in zip(takes, names, strict=True)
        }
        call.bound = {**given, **{parameter: self.as_array(value) for parameter, value in call.bound.items()}}
        call.defaults = {p.name: p.default for p in rule.parameters}
        made = rule.function(call)
        body = made.node if isinstance(made, Value) else made
        ignored = nodes.literal(call.node("ignore_index")) if "ignore_index" in call.defaults else None
        literal = all(arg.keyword and nodes.literal(arg.value) is not ... for arg in node.args)
        options = tuple((arg.keyword.value, nodes.code(arg.value)) for arg in node.args if arg.keyword)
        ignored = ignored if isinstance(ignored, int) else None
        kind = Loss(takes, reduction_of(call) != "none", ignored, LOSSES[name], options if literal else None)
        count = len(names)
        if isinstance(body, cst.Call) and [nodes.code(arg.value) for arg in body.args[:count]] == names:
            if len(body.args) == count:
                return Value(body.func, kind)
            bound = nodes.call("partial", body.func)
            if all(arg.keyword for arg in body.args[count:]):
                return Value(bound.with_changes(args=[*bound.args, *body.args[count:]]), kind)
        return Value(nodes.expression(f"lambda {', '.join(names)}: {{body}}", body=body), kind)

    def loss_call(self, node: cst.Call, callee: Value, kind: Loss) -> Value:
        """A call of a loss: its function takes the tensors in order, whatever torch calls them."""
        if len(node.args) == 1 and node.args[0].star == "*":
            return self.loss_of_all(node, callee, kind)
        names = argument_names(node.args, kind.takes)
        given = {name: self.array(arg.value) for name, arg in zip(names, node.args, strict=True)}
        if set(given) != set(kind.takes):
            raise Unsupported("MIG302", f"{nodes.code(node.func)} takes {', '.join(kind.takes)}")
        values = [given[name] for name in kind.takes]
        args = [cst.Arg(layouts.first(value)) for value in values]
        if any(isinstance(value.kind, PackedElements) for value in values):
            if self.precision is not None:
                raise of_packed(node)
            rows = with_snippets(self, rows_of(node, kind, values), ["packed_labels"])
            args = [cst.Arg(rows, star="*")]
        elif self.precision is not None:
            first = Value(args[0].value, Tensor("float"))
            args[0] = args[0].with_changes(value=self.at_full_precision("cross_entropy", first).node)
        func = nodes.parenthesized(callee.node)
        return Value(node.with_changes(func=func, args=args), Tensor("float", 0 if kind.reduced else -1))

    def loss_of_all(self, node: cst.Call, callee: Value, kind: Loss) -> Value:
        """`criterion(*outputs)` of as many outputs as the loss takes."""
        value = self.expr(node.args[0].value)
        items = value.kind.items if isinstance(value.kind, Items) else None
        known = items is not None and len(items) == len(kind.takes) and all(isinstance(one, Tensor) for one in items)
        if not known or self.precision is not None:
            raise Unsupported("MIG302", f"{nodes.code(node.func)} takes {', '.join(kind.takes)}")
        args = [cst.Arg(layouts.first(value), star="*")]
        made = node.with_changes(func=nodes.parenthesized(callee.node), args=args)
        return Value(made, Tensor("float", 0 if kind.reduced else -1))

    def loss_of_rows(self, api: str, node: cst.Call) -> Value:
        """`F.cross_entropy(scores.data, labels.data)` of packed sequences: what the module of that loss gives."""
        options = node.args[2:]
        if api not in _MODULES or any(arg.star for arg in node.args) or not all(arg.keyword for arg in options):
            raise of_packed(node)
        made = self.loss(_MODULES[api], node.with_changes(args=options))
        assert isinstance(made.kind, Loss)
        return self.loss_call(node.with_changes(args=node.args[:2]), made, made.kind)

"""Loss modules: functions in the output."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import Loss, Tensor
from migrate.lowering.arguments import argument_names
from migrate.lowering.precision import Precision
from migrate.optimizers import LOSSES
from migrate.rules.catalogue import RULES
from migrate.rules.losses import reduction_of
from migrate.rules.rule import Value


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
        kind = Loss(takes, reduction_of(call) != "none")
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
        given = dict(zip(argument_names(node.args, kind.takes), self.array_args(node.args), strict=True))
        if set(given) != set(kind.takes):
            raise Unsupported("MIG302", f"{nodes.code(node.func)} takes {', '.join(kind.takes)}")
        args = [cst.Arg(given[name].value) for name in kind.takes]
        if self.precision is not None:
            first = Value(args[0].value, Tensor("float"))
            args[0] = args[0].with_changes(value=self.at_full_precision("cross_entropy", first).node)
        func = nodes.parenthesized(callee.node)
        return Value(node.with_changes(func=func, args=args), Tensor("float", 0 if kind.reduced else -1))

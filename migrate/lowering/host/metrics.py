"""Metrics of other packages, which measure torch's tensors: `torchmetrics.Accuracy(...)`. They stay, and are given
copies of the arrays, on the host."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Tensor
from migrate.library_modules import measures_tensors
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.host.data_loading import DataLoading, for_torch
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.chains import MOVED
from migrate.syntax.imported import full_name

METRIC = Host("metric")
_MEASURED = Host("tensor")


class Metrics(DataLoading):
    """What is made by such a package, and what is asked of it."""

    def of_metrics(self, node: cst.Call) -> Value | None:
        """A call of a class or a function of such a package; None for other calls."""
        name = full_name(node.func, self.unit.imported)
        if not measures_tensors(name) or self.context == "setup":  # a part of a module, refused where it is called
            return None
        made = node.with_changes(args=self.args_of_metric(node))
        return Value(made, METRIC if name.rpartition(".")[2][:1].isupper() else _MEASURED)

    def metric_call(self, node: cst.Call, metric: Value) -> Value:
        """`accuracy(predicted, labels)`."""
        return Value(node.with_changes(func=metric.node, args=self.args_of_metric(node)), _MEASURED)

    def metric_method(self, node: cst.Call, func: cst.Attribute, metric: Value) -> Value:
        """A method of a metric, whose place is the CPU, with the tensors that it is given."""
        if func.attr.value in MOVED:
            return metric
        made = func.with_changes(value=metric.node)
        return Value(node.with_changes(func=made, args=self.args_of_metric(node)), _MEASURED)

    def args_of_metric(self, node: cst.Call) -> list[cst.Arg]:
        """The arguments of a metric as torch's tensors."""
        values = [self.expr(arg.value) for arg in node.args]
        arrays = [isinstance(part, Tensor) for value in values for part in kinds_in(value.kind)]
        if any(arrays) and self.under_jit:
            told = f"{nodes.code(node.func)}, which measures torch's tensors, is given some where jit traces"
            raise Unsupported("MIG301", told)
        if sum(arrays) > sum(isinstance(value.kind, Tensor) for value in values):
            raise Unsupported(
                "MIG301", f"{nodes.code(node.func)} measures torch's tensors, and is given arrays in a list"
            )
        return [arg.with_changes(value=for_torch(value)) for arg, value in zip(node.args, values, strict=True)]

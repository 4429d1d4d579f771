"""Scheduler classes of the user's own, `class Warmup(LRScheduler)`: they stay as they are, on numbers of Python's.

An object of such a class is given the rates of the optimizer in its place (`GroupRates`); after each of its steps the
rate that it has set there goes into the state of the optimizer.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Kind, Model, Optimizer, Scheduler, Tensor
from migrate.known.qualified import inside
from migrate.known.weight_kinds import OwnScheduler
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.optimizers.group_settings import GroupSettings
from migrate.lowering.optimizers.schedules import Schedules
from migrate.lowering.scope import NOWHERE, Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

SCHEDULER = tuple(f"torch.optim.lr_scheduler.{name}" for name in ("LRScheduler", "_LRScheduler"))
_OTHERS = {"momentum", "betas", "weight_decay", "params"}  # of a parameter group, beside its rate


class OwnSchedulers(Scope):
    """Definitions of scheduler classes."""

    def own_scheduler(self, node: cst.ClassDef) -> list[Statement]:
        """A scheduler class, with a base that is not torch's."""
        name = node.name.value
        if len(node.bases) > 1:
            raise Unsupported("MIG201", f"{name} inherits from a scheduler, and from another class")
        bare = nodes.visited(node, _WithoutTypes(self))
        body = bare.body
        used = next((path for path in usage.paths(body) if self.leads_into_torch(path)), None)
        if used is not None:
            raise Unsupported("MIG201", f"{name} inherits from a scheduler, and uses {used}")
        items = [each.slice[0].slice for each in every(body, cst.Subscript)]
        keys = [nodes.literal(each.value) for each in items if isinstance(each, cst.Index)]
        if _OTHERS & {key for key in keys if isinstance(key, str)}:
            raise Unsupported("MIG201", f"{name} inherits from a scheduler, and changes more than the rate")
        methods = {one.name.value: one for one in suites.suite_of(body.body) if isinstance(one, cst.FunctionDef)}
        init = methods.get("__init__")
        first = init.params.params[1].name.value if init is not None and len(init.params.params) > 1 else "optimizer"
        qualname = inside(self.unit.scope, name)
        rates = "param_groups" in nodes.code(body) or "get_last_lr" in nodes.code(body) or "step" in methods
        self.script.own_schedulers[qualname] = (first, not rates)
        self.env.kinds[name] = OwnScheduler(qualname)
        base = with_snippets(self, nodes.name("LRScheduler"), ["LRScheduler"])
        return [bare.with_changes(bases=[node.bases[0].with_changes(value=base)])]

    def leads_into_torch(self, path: str) -> bool:
        """Whether a path leads into torch."""
        return self.torch_name(nodes.expression(path)) is not None


class OwnSchedules(Schedules, GroupSettings):
    """Objects of scheduler classes of the user's own."""

    def schedule_of_own(self, node: cst.Call, kind: OwnScheduler) -> Value:
        """`Warmup(optimizer, 5)`: the object, which has the rates in the place of the optimizer."""
        first, closed = self.script.own_schedulers[kind.cls]
        named = [arg for arg in node.args if arg.keyword is not None and arg.keyword.value == first]
        given = named[0] if named else next((arg for arg in node.args if arg.keyword is None and not arg.star), None)
        if given is None or any(arg.star == "*" for arg in node.args):
            raise Unsupported("MIG302", f"{nodes.code(node)}: which optimizer it is given is not known")
        optimizer, rate = self.optimizer_of(f"{nodes.code(node.func)}()", self.expr(given.value))
        groups = self.groups(optimizer)
        if any(group.multiple for group in groups):
            raise Unsupported("MIG302", f"{nodes.code(node.func)}: parameter groups with rates of their own")
        self.script.proportional[self.root(optimizer)] = False
        rates = with_snippets(self, nodes.call("GroupRates", *[rate] * len(groups)), ["GroupRates"])
        args: list[cst.Arg] = []
        for arg in node.args:
            if arg is given:
                args.append(arg.with_changes(value=rates))
                continue
            value = self.expr(arg.value)
            if not _is_plain(value.kind):
                raise Unsupported("MIG302", f"{nodes.code(node.func)} with {nodes.code(arg.value)}")
            args.append(arg.with_changes(value=value.node))
        return Value(node.with_changes(args=args), Scheduler(NOWHERE, optimizer, starts=True, own=True, closed=closed))


def _is_plain(kind: Kind) -> bool:
    """Whether a value is none of torch's objects."""
    return not any(isinstance(one, Model | Optimizer | Scheduler | Tensor) for one in kinds_in(kind))


class _WithoutTypes(cst.CSTTransformer):
    """A class without annotations that name torch."""

    def __init__(self, scope: OwnSchedulers) -> None:
        super().__init__()
        self.scope = scope

    def of_torch(self, node: cst.Annotation | None) -> bool:
        """Whether an annotation names torch."""
        return node is not None and any(self.scope.leads_into_torch(path) for path in usage.paths(node))

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        if not self.of_torch(original_node.annotation):
            return updated_node
        equal = cst.MaybeSentinel.DEFAULT
        return updated_node.with_changes(annotation=None, equal=equal)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        return updated_node.with_changes(returns=None) if self.of_torch(original_node.returns) else updated_node

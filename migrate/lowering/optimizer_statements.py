"""Statements about optimizers and schedulers."""

from __future__ import annotations

import libcst as cst

from migrate import nodes, suites
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Optimizer,
    Place,
    Scheduler,
)
from migrate.lowering.accumulation import Accumulation
from migrate.lowering.binding import Binding
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import (
    COUNT,
    OPT_STATE,
    State,
)


class OptimizerStatements(Accumulation, Binding):
    """What scripts do with optimizers and schedulers, and loops over their parameter groups."""

    def optimizer_statement(self, node: cst.Call, kind: Optimizer, method: str) -> list[Statement] | None:
        """A method of an optimizer that changes something; None where it is a call like any other."""
        if method == "load_state_dict":
            target = self.write(State(OPT_STATE, kind.place))
            source = self.node(node.args[0].value)
            text = "{target} = serialization.from_state_dict({target}, {source})"
            return [nodes.statement(text, target=target, source=source)]
        if method == "zero_grad":
            return self.zero_grad(kind)
        if method == "step":
            return self.optimizer_step(node, kind)
        if method == "add_param_group":
            raise Unsupported("MIG401", "add_param_group changes the optimizer in the middle of training")
        return None

    def load_scheduler(self, node: cst.Call, kind: Scheduler) -> list[Statement]:
        """`scheduler.load_state_dict(x)`: a schedule's state is how often it was stepped."""
        count = State(COUNT, kind.place)
        self.read(count)
        return [nodes.statement("{c} = {x}", c=self.write(count), x=self.node(node.args[0].value))]

    def scheduler_step(self, node: cst.Call, base: Value) -> list[Statement]:
        """`scheduler.step()`: a counter, and the schedule's rate put into the optimizer state."""
        kind = base.kind
        assert isinstance(kind, Scheduler)
        if node.args:
            raise Unsupported("MIG401", f"{nodes.code(node)}: a scheduler stepped with an argument")
        count = State(COUNT, kind.place)
        steps = self.read(count)
        self.write(count)
        return [
            nodes.statement("{steps} += 1", steps=steps),
            self.set_rate(kind.optimizer, nodes.expression("{s}({n})", s=base.node, n=steps)),
        ]

    def set_rate(self, optimizer: Place, rate: Expr) -> Statement:
        """Gives the optimizer state another learning rate."""
        state = State(OPT_STATE, optimizer)
        self.read(state)
        text = "{state} = optax.tree_utils.tree_set({state}, learning_rate={rate})"
        return nodes.statement(text, state=self.write(state), rate=rate)

    def new_optimizer(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        """`optimizer = torch.optim.Adam(...)`: its state is made as soon as the parameters are."""
        place = self.place_of(target)
        assert isinstance(value.kind, Optimizer)
        kind = Optimizer(place, value.kind.models)
        self.script.optimizers[place] = kind.models
        self.bind(target, kind)
        self.optimizer_models[place] = kind.models
        made = suites.rebuilt(line, small, small.with_changes(value=value.node))
        self.pending.append(("optimizer", place, small))
        return made

    def new_scheduler(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        """`scheduler = StepLR(...)`: a schedule, with a counter of its steps."""
        place = self.place_of(target)
        assert isinstance(value.kind, Scheduler)
        self.bind(target, Scheduler(place, value.kind.optimizer))
        made = suites.rebuilt(line, small, small.with_changes(value=nodes.bare(value.node)))
        count = self.state_expr(State(COUNT, place))
        if value.kind.starts:
            self.pending.append(("rate", place, small))
        return [*made, nodes.statement("{count} = 0", count=count)]

    def rate_loop(self, node: cst.For) -> list[Statement] | None:
        """`for group in optimizer.param_groups: group["lr"] = lr`."""
        if not isinstance(node.iter, cst.Attribute) or node.iter.attr.value != "param_groups":
            return None
        kind = self.expr(node.iter.value).kind
        if not isinstance(kind, Optimizer):
            return None
        body = node.body.body
        only = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else None
        if isinstance(only, cst.Assign) and isinstance(only.targets[0].target, cst.Subscript):
            target = only.targets[0].target
            key = target.slice[0].slice
            named = isinstance(key, cst.Index) and nodes.is_literal(key.value, "lr")
            if named and nodes.dotted(target.value) == nodes.dotted(node.target):
                self.script.scheduled.add(self.root(kind.place))
                return [self.set_rate(kind.place, self.node(only.value))]
        raise Unsupported("MIG401", "param_groups changed in other ways than setting the learning rate")

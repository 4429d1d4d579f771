"""Statements about optimizers and schedulers."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.facts import SteppedUnder
from migrate.known.kinds import Optimizer, Place, Scheduler
from migrate.known.states import COUNT, CYCLE, OPT_STATE, State
from migrate.known.weight_kinds import StateDict
from migrate.lowering.optimizers.group_settings import GroupSettings
from migrate.lowering.optimizers.schedules import rate_in_state, rate_of_own, refuse_mixed
from migrate.lowering.updates.closures import Closures
from migrate.lowering.weights.frozen_by_constructor import FrozenByConstructor
from migrate.lowering.weights.state_loops import StateLoops
from migrate.rules.rule import Value, signature
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_ORDERED = (cst.GreaterThan, cst.GreaterThanEqual, cst.LessThan, cst.LessThanEqual)


class OptimizerStatements(Closures, StateLoops, FrozenByConstructor, GroupSettings):
    """What scripts do with optimizers and schedulers."""

    def optimizer_statement(self, node: cst.Call, kind: Optimizer, method: str) -> list[Statement] | None:
        """A method of an optimizer that changes something; None where it is a call like any other."""
        if method == "load_state_dict":
            given = self.expr(node.args[0].value).kind
            if isinstance(given, StateDict) and given.live:
                raise Unsupported("MIG401", f"{nodes.code(node)}: the state of an optimizer that goes on")
            target = self.write(State(OPT_STATE, kind.place))
            if isinstance(given, StateDict) and self.root(given.place) == self.root(kind.place):
                copied = nodes.call("jax.tree.map", nodes.expression("jnp.copy"), self.node(node.args[0].value))
                return [nodes.statement("{target} = {copied}", target=target, copied=copied)]
            source = self.node(node.args[0].value)
            text = "{target} = serialization.from_state_dict({target}, {source})"
            return [nodes.statement(text, target=target, source=source)]
        if method == "zero_grad":
            return self.zero_grad(kind)
        if self.evaluating_step(node) is not None:
            return self.closure_step(node, kind)
        if method == "step":
            return self.optimizer_step(node, kind)
        if method == "add_param_group":
            raise Unsupported("MIG401", "add_param_group changes the optimizer in the middle of training")
        return None

    def scheduler_statement(self, node: cst.Call, base: Value, method: str) -> list[Statement] | None:
        """A method of a scheduler that changes something; None where it is a call like any other."""
        assert isinstance(base.kind, Scheduler)
        refuse_mixed(base.kind)
        if method == "step":
            return self.scheduler_step(node, base)
        return self.load_scheduler(node, base) if method == "load_state_dict" else None

    def load_scheduler(self, node: cst.Call, base: Value) -> list[Statement] | None:
        """`scheduler.load_state_dict(x)`: a schedule's state is how often it was stepped, or what an object keeps."""
        kind = base.kind
        assert isinstance(kind, Scheduler)
        if kind.own:
            return None
        if kind.plateau:
            given = self.node(node.args[0].value)
            return [nodes.statement("vars({s}).update({x})", s=base.node, x=given)]
        count = State(COUNT, kind.place)
        self.read(count)
        return [nodes.statement("{c} = {x}", c=self.write(count), x=self.node(node.args[0].value))]

    def scheduler_step(self, node: cst.Call, base: Value) -> list[Statement]:
        """`scheduler.step()`: a counter, and the schedule's rate put into the optimizer state."""
        kind = base.kind
        assert isinstance(kind, Scheduler)
        stepped = self.script.stepped.setdefault(self.root(kind.optimizer), set())
        stepped.add(self.root(kind.place))
        closed = kind.closed or (bool(node.args) and not kind.is_object and not kind.follows)
        under = SteppedUnder(self.conditions[-1] if self.conditions else None, kind.follows, closed)
        self.script.stepped_under[self.root(kind.place)] = under
        found = [self.script.stepped_under.get(place) for place in stepped]
        each_sets = all(one is not None and one.closed for one in found)
        if len(stepped) > 1 and not each_sets and not self.take_over(stepped):
            raise Unsupported(
                "MIG302", "two schedulers that change one learning rate; use SequentialLR or ChainedScheduler"
            )
        if kind.plateau:
            call = self.bind_call("ReduceLROnPlateau.step", signature("metrics, epoch=None"), node.args)
            rate = nodes.expression("{s}.step({metric})", s=base.node, metric=layouts.first(call.value("metrics")))
            made = self.set_hyperparameters(kind.optimizer, {"learning_rate": rate})
            if self.root(kind.optimizer) not in self.script.set_by_hand:
                return [made]
            before = nodes.expression("float({rate})", rate=rate_in_state(self, kind.optimizer))
            return [nodes.statement("{s}.lr = {before}", s=base.node, before=before), made]
        if kind.own:
            return self.own_step(node, base)
        count = State(COUNT, kind.place)
        steps = self.read(count)
        self.write(count)
        counted = nodes.statement("{steps} += 1", steps=steps)
        if node.args:
            counted = nodes.statement("{steps} = {n}", steps=steps, n=self.node(node.args[0].value))
        rate = nodes.expression("{s}({n})", s=base.node, n=steps)
        if kind.follows:
            if node.args:
                raise Unsupported("MIG302", f"{nodes.code(node)}, where the rate is set by other means as well")
            before = nodes.expression("float({rate})", rate=rate_in_state(self, kind.optimizer))
            rate = nodes.expression("{s}({n}, {before})", s=base.node, n=steps, before=before)
        given = {"learning_rate": rate}
        if kind.cycles:
            cycle = self.read(State(CYCLE, kind.place))
            given[kind.cycles] = nodes.expression("{cycle}({n})", cycle=cycle, n=steps)
        return [counted, self.set_hyperparameters(kind.optimizer, given)]

    def own_step(self, node: cst.Call, base: Value) -> list[Statement]:
        """A step of a scheduler of the script's own: what it does with the rate that it sees goes to the optimizer."""
        kind = base.kind
        assert isinstance(kind, Scheduler) and isinstance(node.func, cst.Attribute)
        rate = rate_of_own(base.node)
        args = [arg.with_changes(value=self.node(arg.value)) for arg in node.args]
        func = node.func.with_changes(value=base.node)
        made: list[Statement] = [nodes.statement("{x}", x=node.with_changes(func=func, args=args))]
        if self.root(kind.optimizer) in self.script.set_by_hand:
            before = nodes.expression("float({rate})", rate=rate_in_state(self, kind.optimizer))
            made.insert(0, nodes.statement("{rate} = {before}", rate=rate, before=before))
        return [*made, self.set_hyperparameters(kind.optimizer, {"learning_rate": rate})]

    def take_over(self, stepped: set[Place]) -> bool:
        """Whether of two schedulers one is stepped until some epoch and the other one from then on, `if epoch > start:`
        and `else:`, and that goes on from the rate that there is."""
        found = [self.script.stepped_under.get(place) for place in stepped]
        if len(found) != 2 or not any(one is not None and one.follows for one in found):
            return False
        tests = [one.test if one is not None else None for one in found]
        return any(
            one is not None
            and other is not None
            and nodes.code(other) == nodes.code(cst.UnaryOperation(cst.Not(), nodes.parenthesized(one)))
            and any(isinstance(target.operator, _ORDERED) for target in every(one, cst.ComparisonTarget))
            and not any(isinstance(part.operator, cst.Modulo) for part in every(one, cst.BinaryOperation))
            for one, other in (tests, tests[::-1])
        )

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
        self.outlive(place)
        made = suites.rebuilt(line, small, small.with_changes(value=value.node))
        if place in self.script.handed:
            del self.script.optimizers[place]  # its callers have it
        else:
            self.pending.append(("optimizer", place, small))
            self.made_under.setdefault(place, []).append(list(self.conditions))
        return made

    def new_scheduler(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.BaseAssignTargetExpression, value: Value
    ) -> list[Statement]:
        """`scheduler = StepLR(...)`: a schedule, with a counter of its steps."""
        place = self.place_of(target)
        assert isinstance(value.kind, Scheduler)
        self.refuse_second(place, value.kind)
        self.bind(target, replace(value.kind, place=place))
        made = suites.rebuilt(line, small, small.with_changes(value=nodes.bare(value.node)))
        cycle, self.pending_cycle = self.pending_cycle, None
        if place in self.script.composed | self.script.handed or value.kind.plateau:
            return made
        if value.kind.own:
            self.pending.append(("rate", place, small))
            return made
        if value.kind.cycles and cycle is None:
            raise Unsupported("MIG404", f"{place.name} cycles the momentum, and is made in another function")
        if cycle is not None:
            name = self.state_expr(State(CYCLE, place))
            made.append(nodes.statement("{name} = {cycle}", name=name, cycle=cycle))
        count = self.state_expr(State(COUNT, place))
        if value.kind.starts:
            self.pending.append(("rate", place, small))
        return [*made, nodes.statement("{count} = 0", count=count)]

    def first_here(self, place: Place) -> bool:
        """Whether an attribute is bound nowhere but in this method, which runs once, and here for the first time."""
        name, cls = place.name.removeprefix("self."), place.scope
        methods = [one for one in self.script.functions.values() if one.qualname.rpartition(".")[0] == cls]
        others = [one for one in methods if one is not self.facts and name in usage.attributes_set(one.node.body)]
        again = others or self.loops or place.name in self.bound_attributes
        return self.facts is not None and not again and self.runs_once(self.facts)

    def refuse_second(self, place: Place, kind: Scheduler) -> None:
        """Declines a scheduler in the place of one that was stepped: torch's goes on from the rate which that has left,
        unless the optimizer was made anew as well. An object that is being made has none yet."""
        if place.of_self and (self.script.sets_up(self.scope) or self.first_here(place)):
            return
        before, root = self.kind_of_name(place.name), self.root(kind.optimizer)
        same = isinstance(before, Scheduler) and not before.mixed and self.root(before.optimizer) == root
        if same and self.root(place) in self.script.stepped.get(root, set()):
            raise Unsupported("MIG302", f"{place.name} takes the place of a scheduler that has changed the rate")

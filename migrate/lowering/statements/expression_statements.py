"""Calls that are statements of their own, where that means more than their value."""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.kept import kept
from migrate.known.kinds import (
    Device,
    Function,
    Host,
    Model,
    Module,
    Optimizer,
    Scheduler,
    Tensor,
)
from migrate.known.states import MODE_IS_A_FIELD, MODES
from migrate.layers.table import TABLE
from migrate.lowering.expressions.calls import Calls
from migrate.lowering.expressions.elements import KEY_OF_ITS_OWN
from migrate.lowering.expressions.torch_calls import in_place_rule
from migrate.lowering.initial.initializers_of_flax import initializer_of, outputs_first
from migrate.lowering.models.averaging import Averaging
from migrate.lowering.models.members import refuse_changing
from migrate.lowering.modules.setup import Setup
from migrate.lowering.optimizers.optimizer_statements import OptimizerStatements
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.updates.computed_in_loss import KEPT_KEY
from migrate.lowering.updates.kept_outputs import note_filled
from migrate.lowering.updates.leaves import Leaves
from migrate.lowering.updates.region_statements import CLIPPING
from migrate.lowering.updates.traced_effects import refuse_told
from migrate.lowering.weights.checkpoints import Checkpoints
from migrate.lowering.weights.names_in_torch import NamesInTorch
from migrate.lowering.weights.started_parts import started_part
from migrate.machine import DEFAULT_TYPES, NO_OPS
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class ExpressionStatements(Averaging, Setup, Calls, Checkpoints, NamesInTorch, Leaves, OptimizerStatements):
    """Statements that are calls."""

    def small_Expr(self, line: cst.SimpleStatementLine, small: cst.Expr) -> list[Statement]:
        node, self.pending_place = small.value, NOWHERE
        cleared = self.cleared_leaf(small)
        if cleared is not None:
            return cleared
        printed = self.printed_summary(node)
        if printed is not None:
            return suites.rebuilt(line, small, small.with_changes(value=printed))
        if isinstance(node, cst.Call):
            special = self.called_statement(line, node)
            if special is not None:
                return special
            refuse_told(self, node)
        value = self.expr(node)
        if not isinstance(node, cst.Call) and value.node is node and self.torch_name(node) is not None:
            return []  # `torch.nn.BCELoss` alone, which does nothing
        own = isinstance(node, cst.Call) and isinstance(value.node, cst.Call) and value.node.func.deep_equals(node.func)
        nothing = isinstance(value.kind, Model | Device) and not own  # `trainer.fit()` may give the model back
        if nothing or (isinstance(node, cst.Call) and isinstance(value.node, cst.Name)):
            return []  # model.eval(), x.requires_grad_()
        return suites.rebuilt(line, small, small.with_changes(value=layouts.first(value)))

    def called_statement(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement] | None:
        """A call that is a statement of its own, where that means more than its value."""
        func = node.func
        special = self.setup_call(node) if self.context == "setup" else None
        if special is not None:
            return special
        name = self.torch_name(func)
        if name is not None:
            return self.torch_statement(line, node, name)
        if isinstance(func, cst.Name):
            callee = self.expr(func)
            if isinstance(callee.kind, Function) and self.fills_model(node, callee.kind):
                return []
            if isinstance(callee.kind, Function):
                return self.user_statement(line, node, callee, callee.kind)
            return None
        if not isinstance(func, cst.Attribute):
            return None
        frozen = self.freezing_call(node) if self.context in HOST_CONTEXTS else None
        if self.context == "setup":
            frozen = self.frozen_parts_call(node)
        if frozen is not None:
            return frozen
        shared = self.path_kind(nodes.dotted(func) or "")
        if isinstance(shared, Function) and self.fills_model(node, shared):
            return []
        if isinstance(shared, Function):
            return self.user_statement(line, node, Value(func, shared), shared)
        by_name = self.copied_by_name(line, node) or self.entry_changed(node)
        if by_name is not None:
            return by_name
        variable = self.variable_of(node)
        if variable is not None:
            given = self.changed_variable(node)
            return self.set_variable(line, variable, self.without_gradient(layouts.first(given), given.kind))
        method = func.attr.value
        if method == "flatten_parameters" and self.model_and_path(nodes.dotted(func.value)) is not None:
            return []  # how torch keeps the weights of a recurrent network in memory
        chained = _first_of_chain(func)
        if chained is not None and isinstance(self.kind_of(chained), Tensor):  # x.mul_(2).add_(1)
            then = node.with_changes(func=func.with_changes(value=chained))
            steps = [cst.SimpleStatementLine([cst.Expr(each)]) for each in (func.value, then)]
            steps[0] = steps[0].with_changes(leading_lines=line.leading_lines)
            return [made for step in steps for made in self.statement(step)]
        base = self.expr(func.value)
        if method == "add_graph" and isinstance(base.kind, Host) and base.kind.what == "writer":
            self.unit.report(Unsupported("MIG518", nodes.code(node)), line)
            return []
        refuse_changing(base.kind, node)
        note_filled(self, node)
        if isinstance(base.kind, Module) and method == "flatten_parameters":
            return []
        if isinstance(base.kind, Module) and method in MODES and self.differs_in_training(base.kind):
            raise Unsupported("MIG201", f"{nodes.code(node)}: {MODE_IS_A_FIELD}")
        if isinstance(base.kind, Module) and method == "load_state_dict":
            return started_part(self, node, base.kind)
        if isinstance(base.kind, Model) and base.kind.place is not None:
            return self.model_statement(node, base.kind, method)
        if isinstance(base.kind, Optimizer):
            return self.optimizer_statement(node, base.kind, method)
        if isinstance(base.kind, Scheduler):
            return self.scheduler_statement(node, base, method)
        if isinstance(base.kind, Tensor) and usage.is_in_place(method):
            return self.in_place(line, func, node, base)
        if base.kind == KEY_OF_ITS_OWN and isinstance(func.value, cst.Name):  # g.manual_seed(0)
            return self.statement(line.with_changes(body=[cst.Assign([nodes.target(func.value)], node)]))
        return None

    def keeps_default_type(self, node: cst.Call, name: str) -> bool:
        """Whether a statement makes float32 what new tensors are, as they are without it."""
        if len(node.args) != 1 or name not in DEFAULT_TYPES:
            return False
        told = nodes.literal(node.args[0].value)
        return (told if isinstance(told, str) else self.torch_name(node.args[0].value)) in DEFAULT_TYPES[name]

    def torch_statement(self, line: cst.SimpleStatementLine, node: cst.Call, name: str) -> list[Statement] | None:
        """A call of a torch function that is made for its effect; None where it is a call like any other."""
        if name in NO_OPS or self.keeps_default_type(node, name):
            return []
        if name == f"torch.{KEPT_KEY}":
            return self.kept_key(node)
        if name == "torch.multiprocessing.spawn":
            return self.small_Expr(line, cst.Expr(self.spawned(node)))
        if name == "torch.manual_seed":
            return self.seed(line, node)
        if name == "torch._assert" and len(node.args) == 2 and not any(arg.keyword or arg.star for arg in node.args):
            return self.statement(cst.SimpleStatementLine([cst.Assert(node.args[0].value, node.args[1].value)]))
        if name.startswith("torch.nn.init."):
            return self.filled_tensor(line, node, name.rpartition(".")[2])
        if name in CLIPPING:
            return self.clip_statement(node)
        if name == "torch.optim.swa_utils.update_bn":
            return [] if self.keeps_no_statistics(node) else self.update_bn(node)
        if name in TABLE and TABLE[name].wraps and node.args:
            layer = nodes.code(node.args[0].value)
            text = f"{nodes.code(node)} changes a layer in place: write {layer} = {nodes.code(node)}"
            raise Unsupported("MIG202", text)
        return None

    def filled_tensor(self, line: cst.SimpleStatementLine, node: cst.Call, name: str) -> list[Statement]:
        """`nn.init.xavier_uniform_(w)` of a tensor that has a name: torch's order of axes, outputs first."""
        target = node.args[0].value if node.args else None
        if not isinstance(target, cst.Name) or not isinstance(self.kind_of(target), Tensor):
            if self.facts is not None and set(usage.loads(target or node)) & set(self.facts.parameter_names):
                self.script.going_on.add(self.facts.qualname)  # its callers know the layer that it fills
            raise Unsupported("MIG204", f"{nodes.code(node)} outside a function given to apply")
        initializer = outputs_first(initializer_of(self, name, node, target))
        self.own(target)
        given = {"init": nodes.parenthesized(initializer), "key": self.fresh_key(), "x": target}
        made = nodes.expression("{init}({key}, {x}.shape)", **given)
        kind = self.changed_leaf(target) or self.kind_of(target)
        self.bind(target, kind)
        return suites.assigned(line, target, made)

    def model_statement(self, node: cst.Call, kind: Model, method: str) -> list[Statement] | None:
        """A method of a model that changes it; None where it is a call like any other."""
        place = kind.place
        assert place is not None
        if method == "load_state_dict":
            return self.load_model(node, kind)
        if method == "apply":
            return self.apply_initializer(node, kind)
        if method == "update_parameters" and self.averages(place):
            return self.update_average(node, kind)
        if method == "zero_grad":
            return self.zeroed_gradients((place,))
        return None

    def seed(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement]:
        """torch's seed becomes the key; it also stays where torch still draws (the shuffling of a loader)."""
        if self.context == "setup":
            raise Unsupported("MIG302", "a seed in a constructor, which Flax runs in each forward pass")
        seed = self.node(node.args[0].value)
        made: list[Statement] = []
        if self.facts is None:
            self.script.module_seeds.add(self.unit.scope)
        if self.facts is not None and not self.facts.local_key:
            parameter = nodes.dotted(seed)
            if parameter in self.facts.parameter_names and not self.facts.needs_key:
                self.facts.seeds = parameter or ""
                return [kept(line)]
        if self.script.loads["loader"]:
            made.append(kept(line))
        if self.wants_key():
            made.append(nodes.statement(f"{self.unit.key} = jax.random.key({{seed}})", seed=seed))
            self.ran_key |= not self.conditions  # else there is a key before it as well
        return made

    def in_place(
        self, line: cst.SimpleStatementLine, func: cst.Attribute, node: cst.Call, base: Value
    ) -> list[Statement]:
        """`x.add_(y)` on a name binds it again; on a slice of one, `x[:, 0].zero_()`, it sets that part."""
        api = f"Tensor.{func.attr.value}"
        rule = in_place_rule(api)
        if self.context in HOST_CONTEXTS and self.region is None:
            func = _without_data(func)  # no gradient goes through what changes here
        view = isinstance(func.value, cst.Subscript) and self.is_view(func.value)
        target = func.value.value if isinstance(func.value, cst.Subscript) and view else func.value
        if not isinstance(target, cst.Name) or not isinstance(self.kind_of(target), Tensor):
            raise Unsupported("MIG303", f"{nodes.code(func.value)} is changed in place")
        if api != "Tensor.detach_" or self.under_jit:  # whoever sees the tensor has no gradient of it here
            self.own(target)
        if rule is None:
            raise Unsupported("MIG301", api)
        value = self.apply_rule(rule, api, node, base)
        if target is func.value:
            leaf = self.changed_leaf(target)
            self.bind(target, leaf or value.kind, value.layout)
            return suites.assigned(line, target, value.node)
        assert isinstance(base.node, cst.Subscript)
        place = base.node.with_changes(value=cst.Attribute(base.node.value, cst.Name("at")))
        return suites.assigned(line, target, nodes.call(cst.Attribute(place, cst.Name("set")), layouts.first(value)))

    def is_view(self, node: cst.Subscript) -> bool:
        """Whether an index is made of literals, slices and variables of counting loops alone, so that torch changes the
        tensor that it is taken of."""
        if not isinstance(node.value, cst.Name):
            return False
        indices = [element.slice for element in node.slice]
        plain = [one.value for one in indices if isinstance(one, cst.Index)]
        return all(isinstance(nodes.literal(one), int) or self.counts(one) for one in plain)

    def counts(self, node: Expr) -> bool:
        """Whether a name is bound by loops over `range(...)` alone: a whole number."""
        if not isinstance(node, cst.Name):
            return False
        body = self.own_body
        loops = [loop for loop in every(body, cst.For) if nodes.dotted(loop.target) == node.value]
        ranges = [loop for loop in loops if isinstance(loop.iter, cst.Call) and nodes.dotted(loop.iter.func) == "range"]
        return bool(ranges) and len(ranges) == usage.stores(body).count(node.value)


def _without_data(func: cst.Attribute) -> cst.Attribute:
    """`x.copy_` for `x.data.copy_`."""
    match func.value:
        case cst.Attribute(value=cst.Name() as whole, attr=cst.Name(value="data")):
            return func.with_changes(value=whole)
        case _:
            return func


def _first_of_chain(func: cst.Attribute) -> cst.Name | None:
    """The name that several methods in place change one after another; None where there are not several."""
    inner, chained = func, False
    while isinstance(inner, cst.Attribute) and inner.attr.value.endswith("_"):
        if isinstance(inner.value, cst.Name):
            return inner.value if chained else None
        inner, chained = inner.value.func if isinstance(inner.value, cst.Call) else inner.value, True
    return None

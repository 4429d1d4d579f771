"""Calls that are statements of their own, where that means more than their value."""

from __future__ import annotations

import libcst as cst

from migrate import layouts, nodes, suites
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    Device,
    Function,
    Model,
    Module,
    Optimizer,
    Scheduler,
    Tensor,
)
from migrate.lowering.calls import Calls
from migrate.lowering.checkpoints import Checkpoints
from migrate.lowering.finding import CLIPPING
from migrate.lowering.optimizer_statements import OptimizerStatements
from migrate.lowering.setup import Setup
from migrate.machine import NO_OPS
from migrate.nodes import Expr, Statement
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value


class ExpressionStatements(Setup, Calls, Checkpoints, OptimizerStatements):
    """Statements that are calls."""

    def small_Expr(self, line: cst.SimpleStatementLine, small: cst.Expr) -> list[Statement]:
        node = small.value
        if isinstance(node, cst.Call):
            special = self.called_statement(line, node)
            if special is not None:
                return special
        value = self.expr(node)
        if isinstance(value.kind, Model | Device) or (isinstance(node, cst.Call) and isinstance(value.node, cst.Name)):
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
            if isinstance(callee.kind, Function):
                return self.user_statement(line, node, callee, callee.kind)
            return None
        if not isinstance(func, cst.Attribute):
            return None
        shared = self.path_kind(nodes.dotted(func) or "")
        if isinstance(shared, Function):
            return self.user_statement(line, node, Value(func, shared), shared)
        base, method = self.expr(func.value), func.attr.value
        if isinstance(base.kind, Module) and method == "flatten_parameters":
            return []  # how torch keeps the weights of a recurrent network in memory
        if isinstance(base.kind, Model) and base.kind.place is not None:
            return self.model_statement(node, base.kind, method)
        if isinstance(base.kind, Optimizer):
            return self.optimizer_statement(node, base.kind, method)
        if isinstance(base.kind, Scheduler) and method == "step":
            return self.scheduler_step(node, base)
        if isinstance(base.kind, Tensor) and method.endswith("_") and not method.startswith("__"):
            return self.in_place(line, func, node, base)
        return None

    def torch_statement(self, line: cst.SimpleStatementLine, node: cst.Call, name: str) -> list[Statement] | None:
        """A call of a torch function that is made for its effect; None where it is a call like any other."""
        if name in NO_OPS:
            return []
        if name in ("torch.manual_seed", "torch.random.manual_seed"):
            return self.seed(line, node)
        if name.startswith("torch.nn.init."):
            raise Unsupported("MIG204", f"{nodes.code(node)} outside a function given to apply")
        if name in CLIPPING:
            return self.clip_statement(node)
        return None

    def model_statement(self, node: cst.Call, kind: Model, method: str) -> list[Statement] | None:
        """A method of a model that changes it; None where it is a call like any other."""
        place = kind.place
        assert place is not None
        if method == "load_state_dict":
            return self.load_model(node, kind)
        if method == "apply":
            return self.apply_initializer(node, kind)
        if method == "zero_grad":
            return self.zeroed_gradients((place,))
        return None

    def seed(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement]:
        """torch's seed becomes the key; it also stays where torch still draws (the shuffling of a loader)."""
        seed = self.node(node.args[0].value)
        made: list[Statement] = []
        if self.facts is None:
            self.script.module_seeds.add(self.unit.scope)
        if self.facts is not None and not self.facts.local_key:
            parameter = nodes.dotted(seed)
            if parameter in self.facts.parameter_names and not self.facts.needs_key:
                self.facts.seeds = parameter or ""
                return [line]
        if self.script.loads["loader"]:
            made.append(line)
        if self.wants_key():
            made.append(nodes.statement(f"{self.unit.key} = jax.random.key({{seed}})", seed=seed))
            self.ran_key = True
        return made

    def in_place(
        self, line: cst.SimpleStatementLine, func: cst.Attribute, node: cst.Call, base: Value
    ) -> list[Statement]:
        """`x.add_(y)` on a plain name: the name is bound again."""
        rule = RULES.get(f"Tensor.{func.attr.value[:-1]}")
        if not isinstance(func.value, cst.Name):
            raise Unsupported("MIG303", f"{nodes.code(func.value)} is changed in place")
        self.own(func.value)
        if func.attr.value in ("zero_", "fill_") and rule is None:
            value: Expr = self.node(node.args[0].value) if node.args else cst.Integer("0")
            made = nodes.expression("jnp.full_like({x}, {v})", x=layouts.first(base), v=value)
            return suites.assigned(line, func.value, made)
        if rule is None:
            raise Unsupported("MIG301", f"Tensor.{func.attr.value}")
        value_made = self.apply_rule(rule, f"Tensor.{func.attr.value}", node, base)
        self.bind(func.value, value_made.kind, value_made.layout)
        return suites.assigned(line, func.value, value_made.node)

"""Calls of values: functions of the user's, modules, models, losses and what is made of them."""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    UNKNOWN,
    Einops,
    Function,
    Host,
    HostClass,
    Instance,
    Items,
    Kind,
    Loss,
    Makers,
    Model,
    Module,
    ModuleClass,
    Never,
    OneOfModels,
    Operation,
    Plain,
    SelfModule,
    Shorthand,
    Tensor,
    Tied,
    TorchName,
    Transformed,
)
from migrate.known.qualified import inside
from migrate.known.weight_kinds import CHECKPOINT, Parameters, Selection
from migrate.layers.table import is_model_alone
from migrate.lowering.expressions.arguments import placed
from migrate.lowering.expressions.builtin_calls import BuiltinCalls
from migrate.lowering.expressions.einops_calls import EinopsCalls
from migrate.lowering.expressions.elements import of_queue
from migrate.lowering.expressions.expressions import Expressions
from migrate.lowering.expressions.named_lambdas import NamedLambdas
from migrate.lowering.expressions.operation_values import OperationValues
from migrate.lowering.expressions.or_else import OrElse
from migrate.lowering.expressions.own_calls import OwnCalls
from migrate.lowering.expressions.rows_of_packages import rows_of
from migrate.lowering.expressions.user_calls import UserCalls
from migrate.lowering.host import graphs
from migrate.lowering.host.data_loading import for_torch
from migrate.lowering.host.metrics import METRIC
from migrate.lowering.host.transforms import RESHAPING, TRANSFORM, transformed_image
from migrate.lowering.models.called_parts import CalledParts
from migrate.lowering.models.foreign_models import refuse_given_to_others
from migrate.lowering.models.summaries import Summaries
from migrate.lowering.modules.makers import MakerValues
from migrate.lowering.modules.perhaps_layers import refuse_perhaps_layer
from migrate.lowering.modules.tied_layers import TiedLayers
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.changed_inputs import ChangedInputs
from migrate.lowering.updates.computed_in_loss import ComputedInLoss
from migrate.lowering.updates.derivatives import Derivatives
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.chains import unchained
from migrate.syntax.nodes import Expr

FOREIGN = Plain("foreign")  # what a constructor has from another package: where it is called, it is a module


class ValueCalls(
    BuiltinCalls,
    Derivatives,
    Summaries,
    CalledParts,
    MakerValues,
    OperationValues,
    EinopsCalls,
    Expressions,
    ComputedInLoss,
    UserCalls,
    OwnCalls,
    ChangedInputs,
    TiedLayers,
    NamedLambdas,
    OrElse,
):
    """What a call of a value gives."""

    def refuse_foreign(self, node: cst.Call, kind: Kind) -> None:
        """Declines to call, in what jit traces, what another package has made: a module of timm, of torchvision."""
        if kind not in (FOREIGN, Host("data"), TRANSFORM, RESHAPING) or not self.under_jit:
            return
        if self.context == "forward" or any(isinstance(self.expr(arg.value).kind, Tensor) for arg in node.args):
            raise Unsupported("MIG202", f"{nodes.code(node.func)}, which another package makes, is not converted")

    def tied_call(self, node: cst.Call, kind: Tied) -> Value:
        """A call of a dense layer that has the weight of another layer."""
        (argument,) = node.args
        given = self.array(argument.value)
        made = self.through_tied(kind, layouts.first(given))
        return Value(made, Tensor("float", given.kind.rank if isinstance(given.kind, Tensor) else -1))

    def value_call(self, node: cst.Call, callee: Value) -> Value:
        """A call of a value."""
        kind = callee.kind
        if isinstance(kind, TorchName):
            return self.torch_call(kind.name, node)
        if isinstance(kind, OneOfModels):
            raise which_model(node.func)
        if kind == Plain("progress") or self.shown_through(node) is not None:
            return self.progress(node, callee)
        if isinstance(kind, Function):
            choice = self.or_else(node, kind)
            return self.user_call(node, callee, kind) if choice is None else self.expr(choice)
        if isinstance(kind, Shorthand):
            return self.as_method_call(node, kind)
        if isinstance(kind, Transformed):
            return self.transformed_call(node, callee, kind)
        if isinstance(kind, ModuleClass):
            return self.construct_user(node, callee, kind)
        if isinstance(kind, Operation):
            return self.operation_call(node, callee, kind)
        if isinstance(kind, Einops):
            return self.einops_call(node, callee, kind)
        if isinstance(kind, Makers) and self.is_making(kind):
            return self.construct_made(node, callee, kind)
        if isinstance(kind, HostClass):
            return self.construct_host(node, callee, kind)
        if kind == METRIC:
            return self.metric_call(node, callee)
        if kind == Host("class"):
            return self.data_call(nodes.code(node.func), node)
        if kind == Host("function") and any(isinstance(self.kind_of(arg.value), Tensor) for arg in node.args):
            told = f"{nodes.code(node.func)} is called by data loading, where it takes torch's tensors"
            raise Unsupported("MIG404", f"{told}: write one of its own for arrays")
        if isinstance(kind, Model):
            return self.model_call(node, callee)
        if isinstance(kind, Module):
            made = unchained(node.func)
            name = self.torch_name(made.func) if isinstance(made, cst.Call) else None
            if self.context in HOST_CONTEXTS and is_model_alone(name or ""):
                raise Unsupported("MIG301", f"{nodes.code(node.func)}: a model that has no name of its own")
            return self.layer_call(node, callee, kind)
        if isinstance(kind, Tied):
            return self.tied_call(node, kind)
        if isinstance(kind, SelfModule):
            return self.own_pass(node, kind)
        if isinstance(kind, Loss):
            return self.loss_call(node, callee, kind)
        called = self.own_method_of("self.__call__") if nodes.dotted(node.func) == "self" else None
        if isinstance(kind, Instance) and f"{kind.cls}.__call__" in self.script.functions:
            called = Function(f"{kind.cls}.__call__")
        if called is not None:
            return self.user_call(node, callee, called)
        if kind == CHECKPOINT:
            raise as_model(node)
        if isinstance(kind, Items):
            raise Unsupported("MIG201", f"{nodes.code(node.func)} is a list in Flax, which is called here")
        if self.is_always_none(node.func):
            return Value(node.with_changes(args=self.plain_args(node.args)), Never())
        self.refuse_foreign(node, kind)
        name = nodes.dotted(node.func)
        if isinstance(node.func, cst.Name) and self.env.lookup(node.func.value) is None:
            return self.builtin_call(node, node.func.value)
        if type(kind) is Kind:
            named = self.named_makers(node)
            if named is not None:
                return self.construct_made(node, callee, named)
            self.refuse_named(node.func)
            refuse_perhaps_layer(self, node.func)
        table = self.summary_call(node)
        if table is not None:
            return Value(table, Plain("str"))
        self.note_value_call(node, kind)
        values = self.plain_values(node.args, outside=kind == Plain("imported"))
        works_on = (Tensor, Parameters, Selection)
        if kind == Plain("class") and name and any(isinstance(value.kind, works_on) for value in values):
            self.script.holding_tensors.add(inside(self.unit.scope, name))
        if kind == Plain("class") and name and any(isinstance(value.kind, Host) for value in values):
            self.script.holding_data.add(inside(self.unit.scope, name))
        refuse_given_to_others(self, node, values)
        if kind in (TRANSFORM, RESHAPING) and not self.under_jit:
            values = [_as_torch(value) for value in values]
        made = node.with_changes(func=nodes.parenthesized(callee.node), args=placed(node.args, values))
        given = [value.kind for value in values]
        transformed = transformed_image(node, kind, given) or graphs.called_by(kind, given)
        if transformed is not None:
            return Value(made, transformed)
        held = (of_queue(node, values) or rows_of(self, node, values)) if kind == Plain("imported") else None
        if held is not None:
            return Value(made, held)
        if self.context == "setup" and kind == Plain("imported"):
            return Value(made, FOREIGN)
        return Value(made, Plain("str") if name == "str" else UNKNOWN)


def _as_torch(value: Value) -> Value:
    """A value as a transform of torchvision's takes it: what is computed in JAX as a copy."""
    return Value(for_torch(value), Host("tensor")) if isinstance(value.kind, Tensor) else value


def as_model(node: cst.Call) -> Unsupported:
    """Declines a use of what a file holds as the model that torch would have read with its class."""
    return Unsupported("MIG302", f"{nodes.code(node.func)}: a file holds the weights of a model; load them into one")


def which_model(node: Expr) -> Unsupported:
    """Declines to use one of several models."""
    told = f"{nodes.code(node)} is one of several models, and which one is told as the script runs"
    return Unsupported("MIG404", told)

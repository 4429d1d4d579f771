"""Calls: which rule, layer, model or function a call reaches."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    Function,
    Model,
    Module,
    Plain,
)
from migrate.known.weight_kinds import StateDict
from migrate.lowering.expressions.arguments import placed
from migrate.lowering.expressions.method_calls import MethodCalls
from migrate.lowering.expressions.names_of_numpy import current_name
from migrate.lowering.expressions.open_files import FILE, opens_file
from migrate.lowering.models.borrowed_models import borrowed_value
from migrate.lowering.modules.constructors import is_extras
from migrate.lowering.modules.inheritance import FRAMEWORK
from migrate.lowering.modules.makers import is_partial
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.saved_entries import note_saved_dict
from migrate.rules.rule import Value
from migrate.syntax import nodes


class Calls(MethodCalls):
    """Where a call goes."""

    def expr_Call(self, node: cst.Call) -> Value:
        if nodes.dotted(node.func) == "dict":
            note_saved_dict(self, node)
        node = self.without_extras(self.options_written_out(node))
        func = (current_name(self, node.func) if isinstance(node.func, cst.Attribute) else None) or node.func
        node = node if func is node.func else node.with_changes(func=func)
        self.refuse_changed_input(node)
        asked = self.asked_object(node)
        if asked is not None:
            return asked
        if self.is_contextlib(node):
            return self.torch_contextlib_nullcontext(node)
        if opens_file(self, node):
            return Value(node.with_changes(args=self.plain_args(node.args)), FILE)
        tree = self.tree_value(node)
        if tree is not None:
            return tree
        selected = self.of_selection(node)
        if selected is not None:
            return selected
        drawing = self.host_only(nodes.dotted(func) or "") if self.under_jit else ""
        if drawing:
            return self.drawn(node, drawing)
        measured = self.of_metrics(node)
        if measured is not None:
            return measured
        borrowed = borrowed_value(self, func)
        if borrowed is not None:
            return self.value_call(node, borrowed)
        name = self.torch_name(func)
        if name is not None and name.startswith("torch.__version__."):  # a method of the text
            return self.value_call(node, self.expr(func))
        if name is not None:
            return self.own_form(name, node) or self.torch_call(name, node)
        by_name = self.maker_by_name(node) or self.of_own_class(node) or self.chosen_optimizer(node)
        if by_name is not None:
            return by_name
        if nodes.dotted(func) in ("TypeVar", "typing.TypeVar"):
            return self.type_variable(node)
        if is_partial(func) and node.args:
            kind = self.expr(node.args[0].value).kind
            made = self.partial_operation(node, kind) or self.partial_maker(node, kind)
            if made is not None:
                return made
        taken = self.taken_part(node)
        if taken is not None:
            return taken
        copied = self.deep_copied(node)
        if copied is not None:
            value = self.expr(copied)
            if isinstance(value.kind, Model) and value.kind.place is not None:
                mode = self.env.modes.get(value.kind.place, "train")
                return Value(value.node, Model(value.kind.cls, None, value.kind.place, mode))
            if isinstance(value.kind, Module) and (self.cls or self.building or self.holder):
                return self.copied_module(node, value)
            if isinstance(value.kind, StateDict):
                return Value(node.with_changes(args=placed(node.args, [value])), replace(value.kind, live=False))
        about_weights = self.part_listed(node) or self.weight_size(node)
        if about_weights is not None:
            return about_weights
        if isinstance(func, cst.Attribute):
            self.refuse_sizes_of_weight(func)
            if isinstance(func.value, cst.Call) and nodes.dotted(func.value.func) == "super":
                return self.super_call(node, func)
            of_part = self.part_method(node, func) if self.context in HOST_CONTEXTS else None
            if of_part is not None:
                return of_part
            base = self.asked_weight(func.value)
            return self.method_call(node, func, base)
        callee = self.class_itself(func)
        filled = self.filled_layer(node, callee.kind) if isinstance(callee.kind, Function) else None
        if filled is not None:
            return filled
        return self.value_call(node, callee)

    def copied_module(self, node: cst.Call, value: Value) -> Value:
        """`copy.deepcopy(layer)`: a module of its own, with those that it holds. Functions are what they are."""
        assert isinstance(value.kind, Module)
        if self.building and len(value.kind.options) > 1:  # each caller would seem to hold what the others give
            assert self.facts is not None
            self.facts.copies_parts = True
            raise Unsupported("MIG201", f"{nodes.code(node)}, where callers give modules of several classes")
        if isinstance(value.node, cst.Name | cst.Attribute):
            self.unit.report(Unsupported("MIG509", nodes.code(node)), node)
            same = {"_deep_clone": nodes.name("True"), "_reset_names": nodes.name("True")}
            return Value(nodes.call(cst.Attribute(value.node, nodes.name("clone")), **same), value.kind)
        return value

    def type_variable(self, node: cst.Call) -> Value:
        """`TypeVar("M", bound=nn.Module)`: the classes of modules inherit from Flax's class of that name."""
        ours = nodes.expression("nn.Module")
        bounds = [ours if self.torch_name(arg.value) == FRAMEWORK else self.node(arg.value) for arg in node.args]
        args = [arg.with_changes(value=bound) for arg, bound in zip(node.args, bounds, strict=True)]
        return Value(node.with_changes(args=args), Plain("type"))

    def without_extras(self, node: cst.Call) -> cst.Call:
        """A call in a constructor without the `**kwargs` that nobody gives it."""
        facts = self.script.classes.get(self.cls) if self.context == "setup" else None
        return nodes.with_some(node, [arg for arg in node.args if facts is None or not is_extras(arg, facts.extras)])

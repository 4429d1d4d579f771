"""`accelerate`: one program over the devices that JAX sees needs no preparing, so an Accelerator goes."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Accelerator, Autocast, Device, Items, Kind, Number
from migrate.lowering.models.precision import Precision
from migrate.rules.rule import Value
from migrate.syntax import nodes

# Arguments of Accelerator(...) that change what is computed, with the values that do not.
_CHANGING = {"mixed_precision": ("no", None), "gradient_accumulation_steps": (1,)}

# What an Accelerator is asked: the answer, and its kind.
_ATTRIBUTES = {
    "is_main_process": ("jax.process_index() == 0", Number()),
    "is_local_main_process": ("jax.process_index() == 0", Number()),
    "is_last_process": ("jax.process_index() == jax.process_count() - 1", Number()),
    "process_index": ("jax.process_index()", Number()),
    "local_process_index": ("jax.process_index()", Number()),
    "num_processes": ("jax.process_count()", Number()),
    "use_distributed": ("jax.process_count() > 1", Number()),
    "sync_gradients": ("True", Number()),
    "device": ("jax.default_backend()", Device()),
}

_SAME = ("prepare_model", "prepare_optimizer", "prepare_scheduler", "prepare_data_loader", "unwrap_model")
_SAME_VALUES = ("gather", "gather_for_metrics", "reduce", "pad_across_processes")


class Accelerated(Precision):
    """What is asked of an Accelerator."""

    def torch_accelerate_Accelerator(self, node: cst.Call) -> Value:
        """An Accelerator disappears, unless it changes what is computed."""
        for arg in node.args:
            keyword = arg.keyword.value if arg.keyword else ""
            if keyword in _CHANGING and nodes.literal(arg.value) not in _CHANGING[keyword]:
                raise Unsupported("MIG302", f"Accelerator({nodes.code(arg).rstrip(', ')})")
            self.expr(arg.value)
        return Value(node, Accelerator())

    def accelerator_attribute(self, attribute: str) -> Value:
        """`accelerator.device` and the like."""
        if attribute not in _ATTRIBUTES:
            raise Unsupported("MIG301", f"Accelerator.{attribute}")
        text, kind = _ATTRIBUTES[attribute]
        return Value(nodes.expression(text), kind)

    def accelerator_method(self, node: cst.Call, method: str) -> Value:
        """A call of a method of an Accelerator inside an expression."""
        values = [self.expr(arg.value) for arg in node.args]
        if method == "prepare":
            kinds: tuple[Kind, ...] = tuple(value.kind for value in values)
            if len(values) == 1:
                return values[0]
            return Value(
                nodes.tuple_of([value.node for value in values], parentheses=False), Items(kinds, type="tuple")
            )
        if method in (*_SAME, *_SAME_VALUES) and values:
            return values[0]
        if method == "print":
            args = [arg.with_changes(value=self.node(arg.value)) for arg in node.args]
            printed = node.with_changes(func=nodes.name("print"), args=args)
            return Value(printed)
        if method == "save" and len(node.args) == 2:
            return self.expr(node.with_changes(func=nodes.expression("torch.save")))
        if method == "get_state_dict" and len(node.args) == 1:
            return self.expr(cst.Call(cst.Attribute(node.args[0].value, cst.Name("state_dict"))))
        if method == "autocast":
            return Value(nodes.name("None"), Autocast())
        if method == "accumulate":
            return Value(nodes.name("None"), Autocast())
        raise Unsupported("MIG301", f"Accelerator.{method}")

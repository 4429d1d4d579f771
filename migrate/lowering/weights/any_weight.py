"""`weight = next(self.parameters())`, of which torch takes the type and the device of a model's weights.

The weight itself is not needed: which one comes first differs in Flax, and all of them are float32.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Device, DType, Model, Number, SelfModule
from migrate.known.weight_kinds import AnyWeight
from migrate.lowering.expressions.arguments import Arguments
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def listed_for_one(node: Expr) -> cst.Call | None:
    """`module.parameters()` in `next(module.parameters())`, or in its `.data`; None for any other expression."""
    if isinstance(node, cst.Attribute) and node.attr.value == "data":
        return listed_for_one(node.value)
    asked = isinstance(node, cst.Call) and nodes.dotted(node.func) == "next" and bool(node.args)
    call = node.args[0].value if isinstance(node, cst.Call) and asked else None
    method = call.func.attr.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else ""
    return call if isinstance(call, cst.Call) and method == "parameters" else None


def listed_for_type(node: Expr) -> cst.Call | None:
    """The same of what is asked for its type or its device alone: `list(module.parameters())[0]`, too."""
    match node:
        case cst.Subscript(
            value=cst.Call(
                func=cst.Name("list"), args=[cst.Arg(value=cst.Call(func=cst.Attribute() as method) as call)]
            ),
            slice=[cst.SubscriptElement(slice=cst.Index(value=index))],
        ) if method.attr.value == "parameters" and isinstance(nodes.literal(index), int):
            return call
    return listed_for_one(node)


class AnyWeights(Arguments):
    """What is asked of such a weight."""

    def asked_weight(self, node: Expr) -> Value:
        """An expression that is given a name, or of which something is asked: it may be any weight of a model."""
        call = listed_for_one(node)
        owner = call.func.value if call is not None and isinstance(call.func, cst.Attribute) else None
        known = owner is not None and isinstance(self.kind_of(owner), SelfModule | Model)
        return Value(node, AnyWeight()) if known and not self.script.doubled else self.expr(node)

    def of_itself(self, listed: cst.Call) -> bool:
        """Whether `module.parameters()` are those of the module whose method this is: there they are not at hand."""
        return isinstance(listed.func, cst.Attribute) and isinstance(self.kind_of(listed.func.value), SelfModule)

    @staticmethod
    def of_any_weight(node: cst.Attribute) -> Value:
        """`weight.device`, `weight.dtype`, `weight.data`."""
        known = {
            "data": Value(node, AnyWeight()),
            "device": Value(nodes.expression("jax.default_backend()"), Device()),
            "dtype": Value(nodes.expression("jnp.float32"), DType()),
            "is_cuda": Value(nodes.expression('jax.default_backend() == "gpu"'), Number()),
        }
        if node.attr.value not in known:
            raise Unsupported("MIG302", f"{nodes.code(node)}: the order of the parameters is not torch's")
        return known[node.attr.value]

"""Dense layers that have the weight of another layer, in what runs: Flax has no layer in their place."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Tensor, Tied
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


class TiedLayers(Scope):
    """What such a layer gives, and what is asked of it."""

    def through_tied(self, kind: Tied, x: Expr) -> Expr:
        """The output of a tied layer."""
        if kind.told and not kind.embedding:
            text = f"({{x}} @ {kind.source}.T if self.{kind.told} else {kind.written}({{x}}))"
            made = nodes.expression(text, x=x)
        elif kind.told:
            made = nodes.expression(f"({kind.embedding}.attend if self.{kind.told} else {kind.written})({{x}})", x=x)
        elif kind.embedding:
            made = nodes.call(f"{kind.embedding}.attend", x)
        else:
            weight = nodes.transposed(self.node(nodes.expression(kind.source)))
            made = nodes.expression("{x} @ {w}", x=x, w=weight)
        return nodes.expression("{y} + {b}", y=made, b=nodes.expression(f"self.{kind.bias}")) if kind.bias else made

    def tied(self, kind: Tied) -> Value:
        """A tied layer that is not called where it is named: a function."""
        return Value(nodes.expression("lambda x: {y}", y=self.through_tied(kind, nodes.name("x"))), kind)

    def of_tied(self, node: cst.Attribute, kind: Tied) -> Value:
        """`self.head.weight`: that of the layer which it is tied to."""
        name = node.attr.value
        if name == "weight" and not kind.told:
            return self.expr(nodes.expression(kind.source))
        if name == "bias" and kind.bias:
            return Value(nodes.expression(f"self.{kind.bias}"), Tensor("float", 1))
        raise Unsupported("MIG301", f"{nodes.code(node)} of a layer that has the weight of another")

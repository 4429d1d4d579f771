"""What `computed_again` writes into the input, in place of what torch has no words for: keys that are kept, and losses
that are worked out for all of what was kept at once."""

from __future__ import annotations

import contextlib

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import SOME_AXES, Items, Tensor, Transformed
from migrate.known.states import THE_KEY
from migrate.lowering.updates.function_transforms import FunctionTransforms
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement

KEPT_KEY = "kept_key"  # `torch.kept_key(name)`: the next draw is made with a key of that name
KEPT_TOGETHER = "kept_together"  # `torch.kept_together(saved, 2)`: an array for each thing that is kept of a turn
KEPT_TURNS = "kept_turns"  # `torch.kept_turns(lambda x, y: ...)`: a map that draws nothing
KEPT_DRAWS = "kept_draws"  # the same, of what draws with the key that is its last argument


class ComputedInLoss(FunctionTransforms, GradientFlow):
    """Lowering it."""

    def kept_key(self, node: cst.Call) -> list[Statement]:
        """`key, dropout_key = jax.random.split(key)`"""
        name = node.args[0].value
        self.read(THE_KEY)
        self.given_key = name
        self.env.kinds[nodes.code(name)] = Tensor()
        return [nodes.statement(f"{self.unit.key}, {nodes.code(name)} = jax.random.split({self.unit.key})")]

    def torch_kept_together(self, node: cst.Call) -> Value:
        """`map(jnp.stack, zip(*saved))`"""
        saved, count = (arg.value for arg in node.args)
        number = nodes.literal(count)
        assert isinstance(number, int)
        if number == 1:
            return Value(nodes.call("jnp.stack", self.node(saved)), Tensor())
        made = nodes.expression("map(jnp.stack, zip(*{saved}))", saved=self.node(saved))
        return Value(made, Items((Tensor(),) * number, type="tuple"))

    def torch_kept_turns(self, node: cst.Call) -> Value:
        """`jax.vmap`"""
        return self._mapped_over(node, None)

    def torch_kept_draws(self, node: cst.Call) -> Value:
        """`jax.vmap` of what draws with a key of its own."""
        function = node.args[0].value
        assert isinstance(function, cst.Lambda)
        return self._mapped_over(node, nodes.name(function.params.params[-1].name.value))

    def modes_of(self, node: Expr) -> set[str]:
        """The modes of the models that code goes through."""
        models = self.models_called(node)
        return {mode for place, mode in self.env.modes.items() if self.root(place) in models} or {"train"}

    def _mapped_over(self, node: cst.Call, key: Expr | None) -> Value:
        function = node.args[0].value
        assert isinstance(function, cst.Lambda)
        inner = self.inner({parameter.name.value: Tensor() for parameter in function.params.params})
        if self.region is None:
            with self.unit.discarding(), contextlib.suppress(Unsupported):
                inner.expr(function.body)  # which tells the functions in it what they are given
            raise Unsupported("MIG401", "outputs that were kept are computed again in a loss alone")
        before, self.region.turn_key = self.region.keys, key
        try:
            body = inner.expr(function.body)
        finally:
            self.region.turn_key = None
        if len(node.args) > 1 and self.modes_of(function.body) - {str(nodes.literal(node.args[1].value))}:
            raise Unsupported("MIG401", f"`{nodes.code(function.body)}` runs in another mode than while acting")
        if self.region.keys != before:
            raise Unsupported("MIG401", f"`{nodes.code(node)}` draws for each turn")
        value = layouts.first(body)
        if isinstance(value, cst.Tuple) and not value.lpar:
            value = nodes.parenthesized(value)
        return Value(nodes.call("jax.vmap", function.with_changes(body=value)), Transformed("", over_turns(body.kind)))


def over_turns(kind: object) -> Tensor | Items:
    """What a map gives of what a turn gives."""
    if isinstance(kind, Items) and kind.items is not None:
        return Items(tuple(map(over_turns, kind.items)), type="tuple")
    if not isinstance(kind, Tensor):
        return Tensor()
    return Tensor(kind.dtype, SOME_AXES if kind.rank < 0 else kind.rank + 1)

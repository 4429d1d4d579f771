"""What torch computes without recording gradients inside code that gradients are taken of: `jax.lax.stop_gradient`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Items, Kind, Tensor
from migrate.lowering.statements.liveness import Liveness
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement


class Detached(Liveness):
    """Blocks and methods under `torch.no_grad()`."""

    def records_nothing(self, contexts: Sequence[Expr]) -> bool:
        """Whether one of the contexts, or of the decorators, is `torch.no_grad()`, where that makes a difference."""
        return self.under_jit and any(map(self.stops_gradients, contexts))

    def refuse_recording(self, context: cst.Call, name: str | None) -> None:
        """Declines a block of which it is not known whether it records, and one that records inside one that does
        not."""
        if not self.under_jit or name not in ("torch.enable_grad", "torch.set_grad_enabled"):
            return
        said = True if name == "torch.enable_grad" else nodes.literal(context.args[0].value) if context.args else ...
        if not isinstance(said, bool):
            raise Unsupported("MIG302", f"{nodes.code(context)}: whether gradients flow is told when it runs")
        if said and self.detached:
            raise Unsupported("MIG302", f"{nodes.code(context)} inside a block that records no gradients")

    @contextlib.contextmanager
    def recording_nothing(self, nothing: bool) -> Iterator[None]:
        """Inside, what is returned or kept in a buffer carries no gradient."""
        before, self.detached = self.detached, self.detached or nothing
        try:
            yield
        finally:
            self.detached = before

    def without_gradient(self, node: Expr, kind: Kind) -> Expr:
        """A value that gradients stop at, where they do here and the value may carry one."""
        if not self.detached or not _carries(kind):
            return node
        given = nodes.tuple_of(nodes.elements(node)) if isinstance(node, cst.Tuple) else nodes.bare(node)
        return nodes.call("jax.lax.stop_gradient", given)

    def as_decorated(self, value: Value, methods: Sequence[FunctionFacts | None]) -> Value:
        """What a call of methods gives, without a gradient where one of them records none."""
        decorators = [each.decorator for method in methods if method is not None for each in method.node.decorators]
        with self.recording_nothing(self.records_nothing(decorators)):
            return replace(value, node=self.without_gradient(value.node, value.kind))

    def stopped(self, body: list[Statement]) -> list[Statement]:
        """A block whose results carry no gradient: those names that it binds and that are read behind it."""
        stored = usage.stores(body)
        names = [name for name in dict.fromkeys(stored) if _carries(self.env.kinds.get(name))]
        names = [name for name in names if any(name in usage.loads(statements) for statements in self.following)]
        if not names:
            return body
        if len(names) == 1 and stored.count(names[0]) == 1:
            for number, statement in enumerate(body):
                small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
                if isinstance(small, cst.Assign) and usage.stores(small) == names and len(small.targets) == 1:
                    value = nodes.call("jax.lax.stop_gradient", nodes.bare(small.value))
                    made = statement.with_changes(body=[small.with_changes(value=value)])
                    return [*body[:number], made, *body[number + 1 :]]
        several = nodes.bare_tuple([nodes.name(name) for name in names])
        given = nodes.tuple_of([nodes.name(name) for name in names]) if len(names) > 1 else several
        return [*body, nodes.statement("{names} = jax.lax.stop_gradient({given})", names=several, given=given)]


def _carries(kind: Kind | None) -> bool:
    """Whether a value may carry a gradient."""
    if isinstance(kind, Items):
        return _carries(kind.joined())
    return type(kind) is Kind or (isinstance(kind, Tensor) and kind.dtype not in ("int", "bool"))

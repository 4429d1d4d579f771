"""Updates inside blocks that say whether gradients are recorded, which go backward all the same."""

from __future__ import annotations

from itertools import groupby

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.lowering.updates.region import call_of, goes_backward, method_call_of
from migrate.lowering.updates.region_statements import CLIPPING
from migrate.syntax import suites, usage
from migrate.syntax.flags import flag_of
from migrate.syntax.nodes import Expr, Statement

_GRADIENTS_WHERE = "torch.set_grad_enabled"


class GradientContexts(Scope):
    """Opening those blocks."""

    def opened_block(self, block: cst.With) -> list[Statement] | None:
        """The statements of a block that has an update in it, without the block; None for other blocks."""
        context = block.items[0].item if len(block.items) == 1 else None
        if context is None:
            return None
        if self.stops_gradients(context):
            return self.backward_inside(block)
        where = isinstance(context, cst.Call) and self.torch_name(context.func) == _GRADIENTS_WHERE
        if not isinstance(context, cst.Call) or not where or len(context.args) != 1:
            return None
        return self.guarded_block(block, context.args[0].value)

    def backward_inside(self, block: cst.With) -> list[Statement] | None:
        """`with torch.no_grad(): loss.backward(); optimizer.step()`: both do there what they do outside. The block
        stays around what is no part of the update."""
        inner = suites.suite_of(block.body.body)
        losses = [loss for loss in map(self.differentiated, inner) if loss is not None]
        made = set(usage.stores(inner))
        if not losses or any(made & set(usage.loads(loss)) for loss in losses):
            return None
        if block not in self.unit.apart:
            apart: list[Statement] = []
            for free, group in groupby(inner, self.is_of_update):
                statements = list(group)
                if not free:
                    statements = [block.with_changes(body=suites.block(statements), leading_lines=[])]
                    self.unit.stands_for(statements[0], block)
                apart += statements
            first = apart[0].with_changes(leading_lines=[*block.leading_lines, *suites.comments(apart[0])])
            self.unit.stands_for(first, inner[0])
            self.unit.apart[block] = [first, *apart[1:]]
        return self.unit.apart[block]

    def is_of_update(self, statement: Statement) -> bool:
        """Whether a statement goes backward, steps, or clears or clips gradients: none records any."""
        if self.differentiated(statement) is not None:
            return True
        call = call_of(statement)
        clips = call is not None and self.torch_name(call.func) in CLIPPING
        return clips or any(method_call_of(statement, method) for method in ("step", "zero_grad"))

    def guarded_block(self, block: cst.With, recorded: Expr) -> list[Statement] | None:
        """The statements of `with torch.set_grad_enabled(train)` around a branch on the same flag, which alone goes
        backward; None for other blocks."""
        inner = suites.suite_of(block.body.body)
        flags = [each.test for each in inner if isinstance(each, cst.If) and goes_backward(each)]
        if not flags or any(flag_of(flag) != flag_of(recorded) for flag in flags):
            return None
        first = self.unit.plain.get(block)
        if first is None:
            first = inner[0].with_changes(leading_lines=[*block.leading_lines, *suites.comments(inner[0])])
            self.unit.stands_for(first, inner[0])
            self.unit.plain[block] = first
        return [first, *inner[1:]]

"""`if train: loss.backward()`: one loop that both trains and evaluates, as a flag tells.

The forward pass stands before the branch, for both. Each side gets it, so that the training side is an update in one
block, and the other one an evaluation; and what mode the model is in is told by the same flag.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate.lowering.statements.blocks import Block
from migrate.lowering.updates.finding import RegionFinding
from migrate.lowering.updates.region import first_backward, goes_backward
from migrate.syntax import suites, usage
from migrate.syntax.flags import flag_of, is_flag
from migrate.syntax.nodes import Expr, Statement


class TrainingBranches(RegionFinding):
    """Branches on whether a loop trains."""

    def branch_first(self, block: Block) -> None:
        """Puts the forward pass that a training branch of a block goes backward through into its two sides."""
        for number in range(block.index + 1, len(block.statements)):
            branch = block.statements[number]
            if not isinstance(branch, cst.If) or not goes_backward(branch) or not is_flag(branch.test):
                continue
            start = self.forward_before(block, number, branch)
            if start is None:
                return
            shared = block.statements[start:number]
            if branch not in self.unit.apart:
                made = _in_both(branch, shared, self.unit.stands_for)
                self.unit.stands_for(made, branch)
                self.unit.apart[branch] = [made]
            block.statements[start : number + 1] = self.unit.apart[branch]
            block.positions[start : number + 1] = [block.positions[start]]
            return

    def forward_before(self, block: Block, number: int, branch: cst.If) -> int | None:
        """Where the forward pass starts that a branch goes backward through; None where it is in the branch itself, or
        cannot go there: the flag is known after it alone."""
        own = suites.suite_of(branch.body.body)
        end = first_backward(own)
        loss = self.differentiated(own[end]) if end is not None else None
        if loss is None:
            return None
        before = block.statements[block.index : number]
        _, needed = self.dependencies(own[:end], set(usage.loads(loss)))
        chosen = {one.statement for one in self.dependencies(before, needed)[0]}
        first = next((i for i, each in enumerate(before) if each in chosen and self.goes_through(each)), len(before))
        shared = before[first:]
        changed = {name for each in shared for name in usage.changes(each)}
        stays = any(isinstance(each, cst.FunctionDef | cst.ClassDef) or self.updates(each) for each in shared)
        if not shared or stays or any(map(suites.may_leave, shared)) or changed & set(usage.loads(branch.test)):
            return None
        return block.index + first

    def updates(self, statement: Statement) -> bool:
        """Whether a statement goes backward or steps: an update of its own stays before the branch."""
        called = {call.func.attr.value for call in usage.calls(statement) if isinstance(call.func, cst.Attribute)}
        return "backward" in called or bool(self.stepped(statement))


def _in_both(branch: cst.If, shared: list[Statement], stands_for: Callable[[Statement, Statement], None]) -> cst.If:
    """A branch with statements at the start of both of its sides."""
    in_body, in_orelse = (
        [each for statement in shared for each in _where_told(statement, branch.test, holds)] for holds in (True, False)
    )
    copies = [statement.deep_clone() for statement in in_orelse]
    for made, originals in ((copies, in_orelse), (in_body, list(in_body))):
        made[:1] = [first.with_changes(leading_lines=[]) for first in made[:1]]
        for each, original in zip(made, originals, strict=True):
            stands_for(each, original)
    holding, rest = suites.sides(branch)
    body = suites.block_of(branch.body, [*in_body, *holding])
    orelse = cst.Else(suites.block([*copies, *rest]))
    return branch.with_changes(body=body, orelse=orelse, leading_lines=shared[0].leading_lines)


def _where_told(statement: Statement, flag: Expr, holds: bool) -> list[Statement]:
    """What runs of a statement on one side of a branch: of a branch on the same flag one side alone."""
    if not isinstance(statement, cst.If) or flag_of(statement.test)[0] != flag_of(flag)[0]:
        return [statement]
    taken = holds == (flag_of(statement.test)[1] == flag_of(flag)[1])
    rest = statement.body if taken else statement.orelse
    if isinstance(rest, cst.If):
        return _where_told(rest, flag, holds)
    body = rest.body if isinstance(rest, cst.Else) else rest
    return suites.suite_of(body.body) if body is not None else []

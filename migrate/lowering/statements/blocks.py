"""Blocks of statements on their way through the lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


class NextTurn(tuple[cst.CSTNode, ...]):
    """The body of a loop as what may follow its end: the loop may also be over by then."""


@dataclass
class Block:
    """A block that is being lowered: its statements, and which of them. `cyclic`: it runs again and again."""

    statements: list[Statement]
    positions: list[int]  # which statement of the input each of them is
    index: int = 0
    cyclic: bool = False

    def replace(self, start: int, end: int, made: list[Statement]) -> None:
        """Puts other statements in the place of some."""
        self.positions[start:end] = [self.positions[start]] * len(made)
        self.statements[start:end] = made


def run_before(blocks: Sequence[Block]) -> list[Statement]:
    """The statements before the one at hand, of all the blocks around it, outermost first."""
    return [statement for block in blocks for statement in block.statements[: block.index]]


def first_later(following: Sequence[Sequence[cst.CSTNode]], met: Callable[[cst.CSTNode], str]) -> str:
    """What happens first to something that is kept, by what follows, nearest first: "load" where it may, "store" where
    that surely comes before, else "". `met`: the same of one statement."""
    left = False  # whether a `break` or `continue` may have skipped some of it
    for statements in following:
        again = isinstance(statements, NextTurn)
        for each in statements:
            found = met(each)
            if found == "load" or (found == "store" and not left and not again):
                return found
            if found == "store":
                break
            left |= _leaves(each)
        left &= not again
    return ""


def _leaves(statement: cst.CSTNode) -> bool:
    """Whether a statement may end the turn of a loop around it."""
    inner = {id(node) for loop in every(statement, (cst.For, cst.While)) for node in every(loop, _LEAVING)}
    return any(id(node) not in inner for node in every(statement, _LEAVING))


_LEAVING = (cst.Break, cst.Continue)

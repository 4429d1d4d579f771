"""Blocks of statements on their way through the lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.syntax.nodes import Statement


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

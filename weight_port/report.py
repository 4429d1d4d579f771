"""What porting did, as values and as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from migrate.layers.moves import Move, Shape, show
from migrate.manifest import Leaf
from weight_port.plan import Plan, Step
from weight_port.verification import Verification

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Row:
    """The tensors of one manifest entry: one, or as many as its wildcards found. ``nbytes`` are those written."""

    source: str
    target: str
    moves: str
    shape: Shape
    dtype: str
    count: int
    nbytes: int


@dataclass(frozen=True)
class PortReport:
    """``out`` is None where nothing was written; ``dropped`` are keys with the reason, ``ties`` pairs of equal keys."""

    source: Path
    out: Path | None
    model: str
    rows: tuple[Row, ...]
    dropped: tuple[tuple[str, str], ...]
    ties: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    seconds: float
    verified: Verification | None = None

    @classmethod
    def of(
        cls, plan: Plan, source: Path, out: Path | None, *, reverse: bool, notes: tuple[str, ...], seconds: float
    ) -> PortReport:
        """The report on a plan that was carried out."""
        groups: dict[Leaf, list[Step]] = {}
        for step in plan.steps:
            groups.setdefault(step.leaf, []).append(step)
        rows = tuple(_row(leaf, steps, reverse) for leaf, steps in groups.items())
        return cls(source, out, plan.model, rows, plan.dropped, plan.ties, notes, seconds)

    @property
    def tensors(self) -> int:
        """How many were ported."""
        return sum(row.count for row in self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors ported."""
        return sum(row.nbytes for row in self.rows)

    def render(self, console: Console) -> None:
        """Print the table, what was dropped or tied, and a closing line."""
        from rich.table import Table

        table = Table(title=f"{self.model}: {self.source.name}", title_justify="left", box=None, pad_edge=False)
        for heading, right in (("from", 0), ("to", 0), ("moves", 0), ("shape", 0), ("type", 0), ("tensors", 1)):
            table.add_column(heading, justify="right" if right else "left", overflow="fold")
        for row in self.rows:
            table.add_row(row.source, row.target, row.moves, show(row.shape), row.dtype, str(row.count))
        console.print(table)
        for key, reason in self.dropped:
            console.print(f"not needed: {key} ({reason})", markup=False)
        for key, same in self.ties:
            console.print(f"tied: {key} is {same}", markup=False)
        for note in self.notes:
            console.print(f"note: {note}", markup=False)
        if self.verified is not None:
            console.print(f"verified: {len(self.verified.leaves)} leaves equal bit for bit", markup=False)
            console.print(f"content: sha256 {self.verified.content}", markup=False, soft_wrap=True)
        where = f"written to {self.out}" if self.out else "nothing was written (dry run)"
        numbers = f"{self.tensors} tensors, {size(self.nbytes)}, {self.seconds:.1f} s"
        console.print(f"{numbers}: every key used, every leaf filled; {where}", markup=False, soft_wrap=True)


def _row(leaf: Leaf, steps: list[Step], reverse: bool) -> Row:
    first = steps[0]
    return Row(
        source=leaf.flax if reverse else leaf.torch,
        target=leaf.torch if reverse else leaf.flax,
        moves=_moves(first.moves),
        shape=_common([step.after.shape for step in steps]),
        dtype=" ".join(sorted({step.after.dtype.name for step in steps})),
        count=len(steps),
        nbytes=sum(step.after.nbytes for step in steps),
    )


def _moves(moves: Iterable[Move]) -> str:
    return ", ".join(" ".join(map(str, move.to_json())) for move in moves) or "as it is"


def _common(shapes: list[tuple[int, ...]]) -> Shape:
    """The lengths that all shapes have in common, None where they differ."""
    return tuple(lengths[0] if len(set(lengths)) == 1 else None for lengths in zip(*shapes, strict=True))


def size(nbytes: int) -> str:
    """Bytes as people write them."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= factor:
            return f"{nbytes / factor:.1f} {unit}"
    return f"{nbytes} bytes"

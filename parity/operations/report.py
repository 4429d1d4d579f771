"""What was found of the operations: on the terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from parity.operations.study import EDGES, LIMIT, OperationResult, Point, Tensor

SCHEMA = 2


def render(results: Sequence[OperationResult], console: Console) -> None:
    """A table of all; for a single operation its histogram and special values too."""
    if len(results) == 1:
        for side, program in zip(("torch", "JAX"), results[0].programs, strict=True):
            console.print(f"{side:5}  {program}", highlight=False, markup=False, soft_wrap=True)
    table = _table(f"{results[0].dtype}, against the oracle")
    table.add_column("operation", overflow="fold", min_width=13)
    table.add_column("of", no_wrap=True)
    for heading in ("torch rel.", "JAX rel.", "ratio", "torch ULP", "JAX ULP", "differ"):
        table.add_column(heading, justify="right", min_width=max(map(len, ("1.2e-30", *heading.split()))))
    table.add_column("changes in", overflow="fold")
    for result in results:
        for tensor in result.tensors:
            table.add_row(
                result.name if tensor is result.tensors[0] else "",
                tensor.name,
                f"{tensor.torch.relative:.2g}",
                f"{tensor.jax.relative:.2g}",
                f"{tensor.ratio:.2f}",
                _ulp(tensor.torch.max_ulp),
                _ulp(tensor.jax.max_ulp),
                f"{tensor.differing:.0%}",
                _said(tensor),
            )
    console.print(table)
    if len(results) == 1:
        _histogram(results[0], console)
    _points(results, console)
    _foot(results, console)


def _table(title: str) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", title=title, title_justify="left")


def _ulp(value: float) -> str:
    return f"{value:.2f}" if value < 1e4 else f"{value:.1e}"


def _said(tensor: Tensor) -> str:
    said = [" and ".join(tensor.modes)] if tensor.modes else []
    if tensor.ratio > LIMIT:
        said.insert(0, f"[red]more than {LIMIT:.0f} times torch's error[/]")
    if tensor.jax.not_finite > tensor.torch.not_finite:
        said.insert(0, f"[red]{tensor.jax.not_finite} not finite[/]")
    return "; ".join(said)


def _histogram(result: OperationResult, console: Console) -> None:
    table = _table("entries by error in units in the last place")
    table.add_column("of")
    for edge in ("", *EDGES):
        table.add_column(f"≤ {edge:g}" if edge else "", justify="right")
    table.add_column("more", justify="right")
    for tensor in result.tensors:
        for side, accuracy in (("torch", tensor.torch), ("jax", tensor.jax)):
            table.add_row(tensor.name, side, *map(str, accuracy.histogram))
    console.print(table)


def _points(results: Sequence[OperationResult], console: Console) -> None:
    """Where the frameworks differ at special values and ties; of several operations only where the oracle gives a
    number, equal rows as one, and denormals in a line."""
    table = _table("special values and ties where the frameworks differ")
    for heading in ("operation", "at", "of"):
        table.add_column(heading, overflow="fold")
    for heading in ("torch", "JAX", "oracle"):
        table.add_column(heading, justify="right", overflow="fold")
    flushed = []
    for result in results:
        points = [point for point in result.points if point.differs]
        if len(results) > 1:
            flushed += [result.name] if any(point.denormal for point in points) else []
            points = [point for point in points if point.telling and not point.denormal]
        rows: dict[tuple[str, ...], list[str]] = {}
        for point in points:
            cells = (point.of, _numbers(point.torch), _numbers(point.jax), _exact(point))
            rows.setdefault(cells if len(results) > 1 else (*cells, point.at), []).append(point.at)
        for number, ((of, torch, jax, exact, *_), places) in enumerate(rows.items()):
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            table.add_row("" if number else result.name, places[0] + more, of, torch, jax, exact)
    if table.row_count:
        console.print(table)
    if flushed:
        console.print(f"one side flushes denormals to zero: {', '.join(flushed)}", highlight=False)


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def _exact(point: Point) -> str:
    """One number, or the ends of what is right; nothing where the definition gives none."""
    ends = [(f"{low:.4g}", f"{high:.4g}") for low, high in point.exact]
    return " ".join("–" if "nan" in pair else pair[0] if len(set(pair)) == 1 else "…".join(pair) for pair in ends)


def _foot(results: Sequence[OperationResult], console: Console) -> None:
    agreements = [result.agreement for result in results if result.agreement is not None]
    if agreements:
        console.print(
            f"the two oracles, mpmath and python-flint, differ by {max(agreements):.1g} at most", highlight=False
        )
    else:
        console.print("oracle: one alone (python-flint is not installed; with it both would be asked)", highlight=False)
    found = [result.name for result in results if result.finding]
    verdict = (
        f"less accurate than torch: {', '.join(found)}" if found else "no operation is much less accurate than torch"
    )
    console.print(verdict, highlight=False)


def to_json(results: Sequence[OperationResult]) -> str:
    return json.dumps({"schema": SCHEMA, "limit": LIMIT, "operations": [asdict(r) for r in results]}, indent=1) + "\n"

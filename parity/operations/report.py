"""What was found of the operations: on the terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from parity.operations.study import EDGES, LIMIT, OperationResult, Tensor

SCHEMA = 1


def render(results: Sequence[OperationResult], console: Console) -> None:
    """A table of all; for a single operation its histogram and special values too."""
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
    for result in results:
        for at, (torch, jax) in result.special.items():
            console.print(f"{result.name} at {at}: torch gives {torch:g}, JAX {jax:g}", highlight=False)
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

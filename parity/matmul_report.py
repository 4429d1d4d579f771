"""Showing a study of matrix products: a table for each d, and a log-log plot in which RMS stands beside max."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from migrate.files.source import write_whole
from parity.codes import ParityError
from parity.matmul import MatmulResult
from parity.product_error import ProductError

FIGURES = {  # of the error
    "max": "max_abs",
    "RMS": "rms",
    "relative Frobenius": "relative_frobenius",
    "max in ULP": "max_ulp",
    "p99.9 in ULP": "p999_ulp",
    "max / u|A||B|": "scaled",
    "signed bias": "bias",
}


def render(result: MatmulResult, console: Console) -> None:
    """Print a line for each product."""
    title = f"[{result.d}, {result.k}] x [{result.k}, {result.d}], {result.dtype}, {result.dist}, seed {result.seed}"
    table = Table(
        box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", title=title, title_justify="left"
    )
    table.add_column("error of", vertical="bottom")
    figures = FIGURES | ({"not finite": "not_finite"} if any(e.not_finite for e in result.errors.values()) else {})
    for label in figures:
        table.add_column(label, justify="right", min_width=max(8, *map(len, label.split())))
    for name, error in result.errors.items():
        table.add_row(name, *(_shown(error, field) for field in figures.values()))
    console.print(table)
    if not math.isnan(result.differing):
        console.print(f"entries in which the frameworks differ: {result.differing:.2%}")
    for line in proof(result):
        console.print(line)
    for note in result.notes:
        console.print(Text(f"note: {note}", style="yellow"))


def _shown(error: ProductError, field: str) -> str:
    return format(getattr(error, field), ".2g" if field == "bias" else ".3g")


def proof(result: MatmulResult) -> list[str]:
    """What certifies the reference."""
    certificate = result.certificate
    verdict = "proved exact" if certificate.exact else "bounded, and summed anew where the bound decides nothing"
    room = f"exponents spread over {certificate.spread}, {certificate.allowed} allowed"
    lines = [f"reference: {verdict} (tier {certificate.tier}; {room})"]
    if result.freivalds is not None:
        lines.append(f"Freivalds modulo 2^31 - 1, every output: {'passed' if result.freivalds else 'FAILED'}")
    checked = f"mpmath, {result.mpmath_entries} entries, half of them the most cancelled"
    lines.append(f"{checked}: off by at most {result.mpmath_error:.1e} ULP · {result.seconds:.2f} s for all of this")
    return lines


def render_growth(results: Sequence[MatmulResult], console: Console) -> None:
    """One line for each d: RMS beside max, and the max that more draws alone would give."""
    columns = ("d", "product", "max", "by draws alone", "RMS", "relative Frobenius")
    table = Table(*columns, box=None, pad_edge=False, header_style="bold", title="growth with d", title_justify="left")
    for name in results[0].errors:
        for result in results:
            error, drawn = result.errors[name], by_draws(results, name, result.d)
            figures = (error.max_abs, drawn, error.rms, error.relative_frobenius)
            table.add_row(str(result.d), name, *(f"{figure:.3g}" for figure in figures))
    console.print(table)
    console.print("'by draws alone': the first maximum, grown as the maximum of so many more equal draws would")


def by_draws(results: Sequence[MatmulResult], name: str, d: int) -> float:
    """The largest of d² draws of one distribution, from that of the first d: it grows as the root of the logarithm."""
    first = results[0]
    growth = math.sqrt(math.log(2.0 * d * d) / math.log(2.0 * first.d * first.d))
    return first.errors[name].max_abs * growth


def save(results: Sequence[MatmulResult], path: Path) -> None:
    """A picture (.png, .svg), a page (.html) or the figures (.json). Raises ParityError for another ending."""
    if path.suffix not in (".png", ".svg", ".html", ".json"):
        raise ParityError("PAR211", f"--report {path}: the ending says what is written: .html, .json, .png or .svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        write_whole(path, to_json(results))
    elif path.suffix == ".html":
        write_whole(path, to_html(results))
    else:
        figure = plot(results)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def to_json(results: Sequence[MatmulResult]) -> str:
    data = [{**asdict(r), "tier": r.certificate.tier, "exact": r.certificate.exact} for r in results]
    text = json.dumps({"format": "migrate-parity-matmul", "version": 1, "products": data}, indent=1)
    return text.replace("NaN", "null")


_COLOURS = {"torch": "#e4572e", "jax": "#1f4e79"}
_OTHERS = ("#2f9e6e", "#8a5a00", "#7b4fa3", "#5c6b7a", "#c1121f")


def plot(results: Sequence[MatmulResult]) -> Any:
    """Max and RMS error against d, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(8.2, 5.2), layout="constrained")
    axes = figure.subplots()
    ds = [result.d for result in results]
    others = iter(_OTHERS)
    for name in results[0].errors:
        colour = _COLOURS.get(name) or next(others, "#333333")
        wide: Any = {"lw": 4.5, "alpha": 0.45} if name == "torch" else {"lw": 1.5}
        worst = [r.errors[name].max_abs for r in results]
        axes.plot(ds, worst, "o-", ms=4, color=colour, label=f"{name}: max", **wide)
        axes.plot(ds, [r.errors[name].rms for r in results], "s--", ms=3.5, color=colour, label=f"{name}: RMS", **wide)
        if name != "torch" and len(ds) > 1:
            draws = [by_draws(results, name, d) for d in ds]
            axes.plot(ds, draws, ":", lw=1.1, color=colour, label=f"{name}: max by draws alone")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ds))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    first = results[0]
    axes.set_xlabel(f"d, of [d, {first.k}] x [{first.k}, d], {first.dtype}")
    axes.set_ylabel("absolute error against the reference")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="#e9edf2", lw=0.8)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def to_html(results: Sequence[MatmulResult]) -> str:
    """One self-contained page."""
    from io import StringIO

    text = StringIO()
    plot(results).savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    sections = "".join(f"<section>{_table(result)}</section>" for result in results)
    return _PAGE.replace("{{plot}}", svg).replace("{{tables}}", sections)


def _table(result: MatmulResult) -> str:
    head = "".join(f"<th class=n>{html.escape(label)}</th>" for label in FIGURES)
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td class=n>{_shown(error, field)}</td>" for field in FIGURES.values())
        + "</tr>"
        for name, error in result.errors.items()
    )
    lines = [*proof(result), *result.notes]
    if not math.isnan(result.differing):
        lines.insert(0, f"entries in which the frameworks differ: {result.differing:.2%}")
    said = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    size = f"[{result.d}, {result.k}] x [{result.k}, {result.d}], {result.dtype}, {result.dist}, seed {result.seed}"
    return f"<h2>{html.escape(size)}</h2><table><tr><th>error of</th>{head}</tr>{rows}</table><ul>{said}</ul>"


_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Matrix products</title>
<style>
  body { margin: 0; background: #f5f7fa; color: #1c2733; font: 15px/1.55 system-ui, "Segoe UI", sans-serif }
  main { max-width: 900px; margin: 0 auto; padding: 32px 20px 64px }
  section { background: #fff; border-radius: 10px; padding: 20px 26px; box-shadow: 0 1px 3px #0001; margin-top: 18px }
  h1 { margin: 0; font-size: 26px } h2 { font-size: 17px; margin: 0 0 10px } svg { width: 100%; height: auto }
  table { border-collapse: collapse; width: 100%; font-size: 13.5px } th { text-align: left; color: #5c6b7a }
  td, th { padding: 4px 10px 4px 0; border-bottom: 1px solid #e3e8ee }
  th.n, td.n { text-align: right; font-variant-numeric: tabular-nums } p, li { color: #5c6b7a; font-size: 13.5px }
</style>
<main><h1>Matrix products against a proved reference</h1>
<section>{{plot}}<p>RMS error is what an entry is off by; it does not grow with d. The maximum does,
because more entries are drawn from the same distribution: the dotted line is the growth
that draws alone would give.</p></section>
{{tables}}</main></html>
"""

"""Showing a result: on a terminal, as JSON, and as one self-contained page."""

from __future__ import annotations

import html
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from migrate.manifest import replacing
from migrate.reporting.verdicts import digest
from parity import tolerance
from parity.answers import Answer
from parity.codes import CODES
from parity.curves import Point
from parity.exact import Exact, ExactRow
from parity.ladder import Rung, StepRow, Verdict
from parity.modes import ModeRow
from parity.page import filled
from parity.result import ParityResult

_MARKS = {
    Verdict.EQUAL: "green",
    Verdict.DIFFERS: "bold red",
    Verdict.NOT_COMPARED: "yellow",
    Verdict.NOT_REACHED: "dim",
}
SCHEMA_VERSION = 1


def headline(result: ParityResult) -> str:
    """The verdict in one line."""
    if result.exit_code == 2:
        return "COULD NOT COMPARE" if not result.steps else "STOPPED"
    return f"EQUAL over {len(result.steps)} steps" if result.passed else "DIFFERS"


def render(result: ParityResult, console: Console) -> None:
    """Print the rungs, the losses side by side and the verdict."""
    if result.rungs:
        console.print(_rung_table(result.rungs))
    if result.steps:
        console.print(_step_table(result.steps))
    for answer in result.verdicts:
        text = Text(f"{answer.question:10} ").append(f"{answer.verdict:13}", _MARKS[answer.verdict])
        console.print(text.append(answer.detail))
    if result.curves:
        outside = any(curve.first for curve in result.curves)
        few = "" if result.envelope else " (not decided: --perturbed-runs 5 measures an envelope)"
        verdict = Verdict.DIFFERS if outside and not few else Verdict.NOT_COMPARED if few else Verdict.EQUAL
        text = Text(f"{'curves':10} ").append(f"{verdict:13}", _MARKS[verdict])
        console.print(text.append("; ".join(curve.said for curve in result.curves) + few))
    if result.modes:
        console.print(_mode_table(result.modes))
    if result.exact and result.exact.rows:
        console.print(_exact_table(result.exact))
    if result.origin:
        console.print(Text(f"origin: {result.origin}", style="bold"))
    for note in result.notes:
        console.print(Text(f"note: {note}", style="yellow"))
    for error in result.errors:
        console.print(Text(error, style="red"))
    style = "bold green" if result.passed else "bold red"
    worst = max((step.drift for step in result.steps), default=math.nan)
    tail = f" · worst drift of a loss {worst:.1e}" if result.steps else ""
    console.print(f"[{style}]{escape(headline(result))}[/]{tail} · {result.seconds:.0f} s")
    if result.first_difference and not result.errors:
        console.print(Text(f"first difference: {result.first_difference}", style="bold"))


def _rung_table(rungs: tuple[Rung, ...]) -> Table:
    table = Table(
        "rung", "verdict", "compared", "worst drift", "its limit", box=None, pad_edge=False, header_style="bold"
    )
    for rung in rungs:
        worst = worst_row(rung)
        figures = ("", "") if worst is None else (f"{worst.drift:.1e}", f"{worst.limit:.1e}")
        table.add_row(rung.name, Text(rung.verdict, _MARKS[rung.verdict]), str(len(rung.rows) or ""), *figures)
    return table


def _mode_table(modes: Sequence[ModeRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("mode", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("compared", "times torch's error", "limit"):
        table.add_column(name, justify="right", min_width=max(map(len, name.split())))
    table.add_column("of", overflow="fold")
    for row in modes:
        verdict = Verdict.DIFFERS if row.differs else Verdict.EQUAL
        figures = (f"{row.worst:.2f}", f"{row.limit:.1f}", row.tensor) if row.held else ("", "", "")
        table.add_row(row.mode, Text(verdict, _MARKS[verdict]), str(row.held), *figures)
    return table


EXACT_FIGURES = ("torch's error", "JAX's error", "times torch's", "limit")


def _exact_table(found: Exact) -> Table:
    title = f"the first step against {found.oracle}"
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    table.add_column("of", no_wrap=True)
    for name in ("compared", *EXACT_FIGURES):
        table.add_column(name, justify="right", width=max(7, *map(len, name.split())))
    table.add_column("closest to its limit", overflow="fold")
    for row in found.rows:
        table.add_row(row.kind, str(row.held), *_exact_figures(row), row.tensor)
    return table


def _exact_figures(row: ExactRow) -> tuple[str, ...]:
    return f"{row.torch:.1e}", f"{row.jax:.1e}", f"{row.ratio:.2f}", f"{row.limit:.1f}"


def worst_row(rung: Rung) -> Any:
    """The row closest to its limit, or furthest beyond it."""
    return max(rung.rows, key=lambda row: row.drift / row.limit if row.limit else math.inf, default=None)


def _step_table(steps: tuple[StepRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("step", "torch loss", "JAX loss", "drift", "limit", ""):
        table.add_column(name, justify="right")
    for step in steps:
        limit = f"{step.limit:.1e}" if step.decides else "undecided"
        mark = Text("differs", "bold red") if step.differs else Text("")
        table.add_row(str(step.step), f"{step.torch:.8g}", f"{step.jax:.8g}", f"{step.drift:.1e}", limit, mark)
    return table


# --- JSON ------------------------------------------------------------------------------------------------------------


def to_json(result: ParityResult) -> str:
    """The whole result as JSON; figures that are not finite become strings ("nan", "inf")."""
    data = {"format": "migrate-parity", "version": SCHEMA_VERSION, **asdict(replace(result, tensors={}))}
    data["digests"] = _digests(result)
    for rung, source in zip(data["rungs"], result.rungs, strict=True):
        for row, row_source in zip(rung["rows"], source.rows, strict=True):
            row["differs"] = row_source.differs
    return json.dumps(_finite(data), indent=1, ensure_ascii=False, allow_nan=False)


def _digests(result: ParityResult) -> dict[str, str]:
    """Which versions of the files were compared."""
    files = {"script": Path(result.script), "rewritten": Path(result.rewritten)}
    return {name: digest(path.read_bytes()) for name, path in files.items() if path.is_file()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# --- the page --------------------------------------------------------------------------------------------------------


def write_html(result: ParityResult, path: str | Path) -> None:
    """Write one self-contained page: verdict, both loss curves, the drift on a logarithmic axis, every figure."""
    with replacing(path) as file:
        file.write(to_html(result).encode())


def to_html(result: ParityResult) -> str:
    kind = "equal" if result.passed else "stopped" if result.exit_code == 2 else "differs"
    title = CODES[result.code].title if result.code in CODES else ""
    explanation = CODES[result.code].explanation if result.code in CODES else ""
    detail = result.first_difference or (result.errors[0] if result.errors else "")
    cause = f"<h3>{_e(title)}</h3><pre>{_e(detail)}</pre><p>{_e(explanation)}</p>" if detail else ""
    worst = max((step.drift for step in result.steps), default=math.nan)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    values = {
        "kind": kind,
        "headline": _e(headline(result)),
        "script": _e(result.script),
        "rewritten": _e(result.rewritten),
        "facts": _e(
            f"worst drift of a loss {worst:.1e} · {versions} · {result.seconds:.0f} s" if result.steps else versions
        ),
        "cause": cause,
        "chart": (chart(result.steps) if result.steps else "") + curve_charts(result),
        "verdicts": _verdicts_html(result.verdicts) if result.verdicts else "",
        "rungs": "".join(_rung_html(rung) for rung in result.rungs),
        "modes": (_modes_html(result.modes) if result.modes else "")
        + (_exact_html(result.exact) if result.exact else ""),
        "steps": _steps_html(result.steps) if result.steps else "",
        "notes": listed(result.notes),
        "errors": "".join(f"<pre>{_e(error)}</pre>" for error in result.errors[1 if detail in result.errors else 0 :]),
        "rule": _e(
            f"Two sides may differ by {tolerance.NOISE_FACTOR:.0f} times as much as torch differs from itself when "
            "nothing changes but roundings (initial weights by one unit in the last place, the order of sums), and "
            f"need never differ by less than {tolerance.LOSS_FIRST_STEPS.relative:.0e} (first two losses) or "
            f"{tolerance.LOSS_LATER.relative:.0e} (later ones)."
        ),
    }
    return filled(values)


def _e(text: object) -> str:
    return html.escape(str(text))


def listed(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{_e(note)}</li>" for note in notes)
    return f"<ul>{items}</ul>" if items else ""


def _rung_html(rung: Rung) -> str:
    kind = _kind(rung.verdict)
    worst = worst_row(rung)
    figures = (
        f"{len(rung.rows)} compared, closest to its limit: {worst.drift:.1e} of {worst.limit:.1e}" if worst else ""
    )
    rows = "".join(
        f"<tr class={'differs' if row.differs else 'ok'}><td>{_e(row.name)}</td><td>{_e(row.flax)}</td>"
        f"<td class=n>{row.drift:.1e}</td><td class=n>{row.limit:.1e}</td></tr>"
        for row in rung.rows
    )
    head = "<tr><th>in torch</th><th>in JAX</th><th class=n>drift</th><th class=n>limit</th></tr>"
    table = f"<table>{head}{rows}</table>" if rows else ""
    opened = " open" if rung.verdict is Verdict.DIFFERS else ""
    return (
        f"<details class={kind}{opened}><summary><b>{_e(rung.name)}</b> <span class=verdict>{_e(rung.verdict)}</span> "
        f"<small>{_e(figures)}</small></summary>{table}</details>"
    )


def _verdicts_html(verdicts: Sequence[Answer]) -> str:
    rows = "".join(
        f"<tr class={_kind(answer.verdict)}><td><b>{_e(answer.question)}</b></td>"
        f"<td><span class=verdict>{_e(answer.verdict)}</span></td><td>{_e(answer.detail)}</td></tr>"
        for answer in verdicts
    )
    return f"<table>{rows}</table>"


def _kind(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")


def _modes_html(modes: Sequence[ModeRow]) -> str:
    names = ("mode", "compared", "error over torch's own", "its limit", "of")
    head = "".join(f"<th{' class=n' if 0 < i < 4 else ''}>{name}</th>" for i, name in enumerate(names))
    rows = "".join(
        f"<tr class={'differs' if row.differs else 'ok'}><td>{_e(row.mode)}</td><td class=n>{row.held}</td>"
        f"<td class=n>{row.worst:.2f}</td><td class=n>{row.limit:.1f}</td><td>{_e(row.tensor)}</td></tr>"
        for row in modes
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _exact_html(found: Exact) -> str:
    if not found.rows:
        return ""
    head = "".join(f"<th class=n>{_e(name)}</th>" for name in ("compared", *EXACT_FIGURES))
    rows = "".join(
        f"<tr class=ok><td>{row.kind}</td><td class=n>{row.held}</td>"
        + "".join(f"<td class=n>{figure}</td>" for figure in _exact_figures(row))
        + f"<td>{_e(row.tensor)}</td></tr>"
        for row in found.rows
    )
    caption = f"<caption>The first step against {_e(found.oracle)}</caption>"
    return f"<table>{caption}<tr><th>of</th>{head}<th>closest to its limit</th></tr>{rows}</table>"


def _steps_html(steps: tuple[StepRow, ...]) -> str:
    names = ("step", "torch loss", "JAX loss", "drift", "torch from itself", "limit")
    head = "".join(f"<th class=n>{name}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(map(_step_html, steps))}</table>"


def _step_html(step: StepRow) -> str:
    kind = "differs" if step.differs else "ok" if step.decides else "undecided"
    limit = f"{step.limit:.1e}" if step.decides else "undecided"
    cells = (str(step.step), f"{step.torch:.9g}", f"{step.jax:.9g}", f"{step.drift:.1e}", f"{step.noise:.1e}", limit)
    return f"<tr class={kind}>" + "".join(f"<td class=n>{cell}</td>" for cell in cells) + "</tr>"


def curve_charts(result: ParityResult) -> str:
    """A chart for each curve, named above."""
    drawn = [curve for curve in result.curves if len(curve.points) > 1]
    return "".join(f"<h3>{_e(curve.said)}</h3>{chart(curve.points, curve.kind)}" for curve in drawn)


def chart(steps: Sequence[StepRow | Point], label: str = "loss") -> str:
    """Two panels as inline SVG: both curves, and drift, torch's own spread and the limit on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x = [step.step for step in steps]
    smallest = 1e-9  # drifts of exactly 0 are drawn at the foot of the axis
    with pyplot.rc_context(
        {"svg.fonttype": "path", "svg.hashsalt": "parity", "font.size": 9.5, "axes.edgecolor": "#b8c0cc"}
    ):
        figure, (above, below) = pyplot.subplots(2, 1, figsize=(8.2, 5.6), sharex=True, height_ratios=[1.15, 1])
        above.plot(
            x, [s.torch for s in steps], color="#e4572e", lw=4.5, alpha=0.45, label="torch", solid_capstyle="round"
        )
        above.plot(x, [s.jax for s in steps], color="#1f4e79", lw=1.4, marker="o", ms=3, label="JAX")
        above.set_ylabel(label)
        below.set_yscale("log")
        limits = [max(s.limit, smallest) for s in steps]
        below.fill_between(x, [smallest] * len(x), limits, color="#2f9e6e", alpha=0.10, lw=0)
        below.plot(x, limits, color="#2f9e6e", lw=1.2, ls="--", label="limit")
        below.plot(
            x, [max(s.noise, smallest) for s in steps], color="#e4572e", lw=1, alpha=0.7, label="torch, from itself"
        )
        below.plot(
            x,
            [_drawn(s.drift, smallest) for s in steps],
            color="#1f4e79",
            lw=1.4,
            marker="o",
            ms=3,
            label="JAX, from torch",
        )
        beyond = [s for s in steps if s.differs]
        if beyond:
            below.plot(
                [s.step for s in beyond], [_drawn(s.drift, smallest) for s in beyond], "o", color="#c1121f", ms=6
            )
            for axes in (above, below):
                axes.axvline(beyond[0].step, color="#c1121f", lw=0.9, ls=":")
        below.set_ylabel("relative drift")
        below.set_xlabel("step")
        below.set_ylim(bottom=smallest)
        below.xaxis.get_major_locator().set_params(integer=True)
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(True, color="#e9edf2", lw=0.8)
            axes.set_axisbelow(True)
            axes.legend(frameon=False, loc="best", ncols=3, fontsize=8.5)
        figure.tight_layout()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _drawn(value: float, smallest: float) -> float:
    return max(value, smallest) if math.isfinite(value) else 1.0

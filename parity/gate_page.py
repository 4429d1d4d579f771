"""The gate's report as one self-contained page: the verdict, a plot for each subject, every figure."""

from __future__ import annotations

import html
import io
import math
from typing import Any

from parity import judge
from parity.gate import GateResult, Judged
from parity.judge import Check
from parity.page import filled
from parity.report import chart, curve_charts, listed

_KINDS = {"pass": "equal", "fail": "differs", "undecided": "not-compared"}
_SAID = {"pass": "pass", "fail": "fail", "undecided": "not decided"}
_COLOURS = {"pass": "#1f4e79", "fail": "#c1121f"}
_FOOT = 1e-18  # differences of exactly 0 are drawn at the foot of a logarithmic axis


def to_html(result: GateResult) -> str:
    said = [f"<pre>{_e(error)}</pre>" for error in result.errors]
    values = {
        "kind": ("equal", "differs", "stopped")[result.exit_code],
        "headline": _e(result.headline),
        "script": _e(result.config),
        "rewritten": f"{len(result.judged)} subjects",
        "facts": _e(" · ".join(f"{k} {v}" for k, v in result.environment.items() if v) + f" · {result.seconds:.0f} s"),
        "cause": "".join(said),
        "chart": _overview(result),
        "rungs": "</section><section>".join(_subject(subject) for subject in result.judged),
        "notes": listed(result.notes),
        "rule": _e(
            "Semantics: both sides in float64. Precision: RMS error of JAX against the float64 oracle, in units of "
            "torch's own; small tensors have wider budgets. Decisions: rows whose largest entry is another one."
        ),
    }
    return filled(values)


def _e(text: object) -> str:
    return html.escape(str(text))


def _overview(result: GateResult) -> str:
    head = "<tr><th>subject</th><th>verdict</th><th class=n>within</th><th class=n>beyond</th>"
    head += "<th class=n>not decided</th><th>first divergence</th></tr>"
    rows = []
    for subject in result.judged:
        counts = [sum(check.status == status for check in subject.checks) for status in _KINDS]
        cells = "".join(f"<td class=n>{count}</td>" for count in counts)
        first = _e(subject.first.tensor) if subject.first else ""
        kind = "differs" if subject.status == "fail" else "undecided" if subject.status == "undecided" else "ok"
        name = f"<td>{_e(subject.name)}</td><td>{_SAID[subject.status]}</td>"
        rows.append(f"<tr class={kind}>{name}{cells}<td>{first}</td></tr>")
    return f"<table>{head}{''.join(rows)}</table>"


def _subject(subject: Judged) -> str:
    parts = [f"<h2>{_e(subject.name)}</h2><p><small>{_e(subject.result.script)} → {_e(subject.result.rewritten)}"]
    parts.append(" · " + ", ".join(f"{_e(k)} {_e(v)}" for k, v in subject.result.versions.items()) + "</small></p>")
    if subject.first is not None:
        parts.append(_first(subject))
    if any(math.isfinite(check.value) for check in subject.checks):
        parts.append(_plot(subject))
    if subject.result.steps:
        parts.append("<h3>Losses</h3>" + chart(subject.result.steps) + curve_charts(subject.result))
    for rule, text in judge.RULES.items():
        checks = [check for check in subject.checks if check.rule == rule]
        if checks:
            parts.append(_table(rule, text, checks))
    parts.append(listed(subject.notes))
    return "".join(parts)


def _first(subject: Judged) -> str:
    assert subject.first is not None
    lines = [subject.first.message]
    for side, place in (("torch", subject.torch_place), ("JAX", subject.jax_place)):
        if place:
            lines.append(f"{side:5} {place.file}:{place.line}: {place.text}")
    lines += [subject.origin] if subject.origin else []
    said = _e("\n".join(lines))
    return f"<h3>First divergence: {_e(subject.first.tensor)}</h3><pre>{said}</pre>"


def _table(rule: str, text: str, checks: list[Check]) -> str:
    rank = {"fail": 0, "undecided": 1, "pass": 2}
    worst = min((check.status for check in checks), key=rank.__getitem__)
    rows = "".join(
        f"<tr class={'differs' if c.status == 'fail' else 'undecided' if c.status == 'undecided' else 'ok'}>"
        f"<td>{_e(c.tensor)}</td><td>{_e(c.mode)}</td><td class=n>{_figure(c.value)}</td>"
        f"<td class=n>{_figure(c.limit)}</td><td>{_SAID[c.status]}</td></tr>"
        for c in sorted(checks, key=lambda check: rank[check.status])
    )
    head = "<tr><th>tensor</th><th>mode</th><th class=n>measured</th><th class=n>budget</th><th></th></tr>"
    opened = " open" if worst != "pass" else ""
    return (
        f"<details class={_KINDS[worst]}{opened}><summary><b>{rule}</b> <span class=verdict>{_SAID[worst]}</span> "
        f"<small>{len(checks)} checks. {_e(text) if worst != 'pass' else ''}</small></summary>"
        f"<table>{head}{rows}</table></details>"
    )


def _figure(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"


def _plot(subject: Judged) -> str:
    """Two panels over the tensors in the order of execution: difference in float64; error in units of torch's own."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rules = [rule for rule in (judge.SEMANTICS, judge.PRECISION) if _points(subject, rule)]
    if not rules:
        return ""
    order = {name: i for i, name in enumerate(dict.fromkeys(c.tensor for r in rules for c in _points(subject, r)))}
    style: dict[Any, Any] = {
        "svg.fonttype": "path",
        "svg.hashsalt": "parity",
        "font.size": 9.5,
        "axes.edgecolor": "#b8c0cc",
    }
    with pyplot.rc_context(style):
        labels = len(order) <= 40
        figure, panels = pyplot.subplots(
            len(rules), 1, figsize=(8.2, 2.3 * len(rules) + (1.6 if labels else 0.3)), sharex=True, squeeze=False
        )
        for axes, rule in zip(panels[:, 0], rules, strict=True):
            _panel(axes, _points(subject, rule), order, rule)
        last = panels[-1, 0]
        if labels:
            last.set_xticks(range(len(order)), [_short(name) for name in order], rotation=60, ha="right", fontsize=7.5)
        else:
            last.set_xlabel(f"{len(order)} tensors in the order of execution")
        figure.tight_layout()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _points(subject: Judged, rule: str) -> list[Check]:
    return [check for check in subject.checks if check.rule == rule and not math.isnan(check.value)]


def _panel(axes: Any, points: list[Check], order: dict[str, int], rule: str) -> None:
    finite = [check.value for check in points if math.isfinite(check.value)]
    top = max([check.limit for check in points] + finite, default=1.0) * 10
    positive = [value for value in finite + [check.limit for check in points] if 0 < value < math.inf]
    foot = max(min(positive, default=_FOOT) / 10, _FOOT)
    axes.set_yscale("log")
    limits: dict[str, float] = {check.tensor: check.limit for check in points}
    x = [order[name] for name in limits]
    axes.plot(x, list(limits.values()), color="#2f9e6e", lw=0, marker="_", ms=9, mew=1.6, label="budget")
    for status, colour in _COLOURS.items():
        chosen = [check for check in points if check.status == status]
        if chosen:
            heights = [min(max(check.value, foot), top) for check in chosen]
            axes.plot([order[c.tensor] for c in chosen], heights, "o", color=colour, ms=4.5, label=_SAID[status])
    first = next((order[check.tensor] for check in points if check.status == "fail"), None)
    if first is not None:
        axes.axvline(first, color="#c1121f", lw=0.9, ls=":")
    axes.set_ylim(foot / 2, top * 2)
    axes.set_ylabel("relative difference\nin float64" if rule == judge.SEMANTICS else "error in units\nof torch's own")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="#e9edf2", lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="best", ncols=3, fontsize=8.5)


def _short(name: str) -> str:
    return name.replace("output of the model ", "").replace("output of ", "").replace("gradient of ", "∇ ")

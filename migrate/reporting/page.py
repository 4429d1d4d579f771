"""The page: before and after side by side, each finding at its line, what is verified, how much work is left.

One file without scripts from elsewhere, fonts or pictures: it can be mailed, and opened years later.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from migrate import __version__
from migrate.diagnostics import CODES, Diagnostic, Report, Severity
from migrate.files.source import write_whole
from migrate.pipeline import Output
from migrate.reporting.effort import estimate, minutes
from migrate.reporting.formats import NOT_VERIFIED, STAGES
from migrate.rewriting import Rewritten

_ASSETS = Path(__file__).parent
_STAGE_MEANS = {
    "spec": "the same classes, arguments, command line and files",
    "numeric": "the same outputs, losses and gradients from the same weights",
    "behavioural": "the same loss curve over many steps, state included",
}
_EFFORT_MEANS = {
    "none": "nothing is left to do by hand",
    "minutes": "an hour at most",
    "hours": "within two days",
    "redesign": "more than two days: write the training code anew around the converted models",
}


def write_page(path: Path, made: Rewritten, report: Report, stages: Mapping[str, str] = STAGES) -> None:
    """Writes the page of a conversion."""
    write_whole(path, page(made.conversion.outputs, report, stages))


def page(outputs: Sequence[Output], report: Report, stages: Mapping[str, str] = STAGES) -> str:
    """The page of a conversion, as text."""
    by_path: dict[str, list[Diagnostic]] = {}
    for found in report.diagnostics:
        by_path.setdefault(found.path, []).append(found)
    shown = [output for output in outputs if output.changed or by_path.get(_path(output))]
    shown.sort(key=lambda output: (-_errors(by_path.get(_path(output), [])), output.member.place))
    copied = [output.member.place for output in outputs if output not in shown]
    names = {_path(output): output.member.place for output in outputs}
    title = shown[0].member.place if len(shown) == 1 else f"{len(outputs)} files"
    parts = [
        _header(title, outputs, report),
        _verdict(report, stages),
        _contents(shown, by_path) if len(shown) > 1 else "",
        _findings(report, names),
        *(_file(number, output, by_path.get(_path(output), [])) for number, output in enumerate(shown)),
        f"<p class='quiet'>Copied as they are: {_escaped(', '.join(copied))}</p>" if copied else "",
        f"<footer>migrate {__version__}</footer>",
    ]
    style = (_ASSETS / "page.css").read_text(encoding="utf-8")
    colours = HtmlFormatter(style="default").get_style_defs(".code")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".code")
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>migrate: {_escaped(title)}</title>"
        f"<style>{colours}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n{style}</style></head><body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)


def _path(output: Output) -> str:
    return output.member.source.path if output.member.source else str(output.member.path)


def _errors(found: Sequence[Diagnostic]) -> int:
    return sum(one.severity is not Severity.NOTE for one in found)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _header(title: str, outputs: Sequence[Output], report: Report) -> str:
    errors = _errors(report.diagnostics)
    changed = sum(output.changed for output in outputs)
    need = f"<b>{_plural(errors, 'place')}</b> need a person" if errors != 1 else "<b>1 place</b> needs a person"
    if not errors:
        need = "no place needs a person"
    notes = len(report.diagnostics) - errors
    said = f"{_plural(changed, 'file')} of {len(outputs)} rewritten, {need}, {_plural(notes, 'note')}."
    return f"<header><h1>{_escaped(title)}</h1><p class='lead'>From PyTorch to JAX. {said}</p></header>"


def _verdict(report: Report, stages: Mapping[str, str]) -> str:
    cells = "".join(
        f"<div class='card'><h3>{name}</h3><p class='value {'open' if value == NOT_VERIFIED else 'told'}'>"
        f"{_escaped(value)}</p><p class='quiet'>{_STAGE_MEANS[name]}</p></div>"
        for name, value in stages.items()
    )
    effort = estimate(report.diagnostics)
    time = minutes(report.diagnostics)
    about = f" (about {_duration(time)})" if time else ""
    work = (
        f"<div class='card'><h3>work left</h3><p class='value'>{effort}{about}</p>"
        f"<p class='quiet'>{_EFFORT_MEANS[effort]}; an estimate from the findings</p></div>"
    )
    how = ""
    if NOT_VERIFIED in stages.values():
        how = "<p class='quiet'>What is not verified is not known to be right: run <code>migrate parity</code>.</p>"
    return f"<section class='cards'>{cells}{work}</section>{how}"


def _duration(time: int) -> str:
    return f"{time} minutes" if time < 90 else f"{round(time / 60)} hours"


def _contents(shown: Sequence[Output], by_path: Mapping[str, Sequence[Diagnostic]]) -> str:
    rows = []
    for number, output in enumerate(shown):
        found = by_path.get(_path(output), [])
        errors = _errors(found)
        count = f"<span class='count'>{errors}</span>" if errors else "<span class='count none'>0</span>"
        kind = "" if output.changed else " <span class='quiet'>copied</span>"
        rows.append(f"<li>{count}<a href='#file{number}'>{_escaped(output.member.place)}</a>{kind}</li>")
    return f"<nav><h2>Files</h2><ul>{''.join(rows)}</ul></nav>"


def _findings(report: Report, names: Mapping[str, str]) -> str:
    """Which findings there are, the most frequent first: a cause mended often mends many."""
    by_code: dict[str, list[Diagnostic]] = {}
    for found in report.diagnostics:
        by_code.setdefault(found.code, []).append(found)
    if not by_code:
        return ""
    rows = []
    for code, found in sorted(by_code.items(), key=lambda item: (-len(item[1]), item[0])):
        places = ", ".join(
            f"<a href='#{_anchor(one)}'>{_escaped(names.get(one.path, one.path))}:{one.spot}</a>"
            if one.line
            else _escaped(names.get(one.path, one.path))
            for one in found[:8]
        )
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        about = CODES[code]
        rows.append(
            f"<tr class='{about.severity}'><td><b>{code}</b></td><td>{len(found)}</td>"
            f"<td>{_escaped(about.title)}<br><span class='quiet'>{_escaped(about.help)}</span></td>"
            f"<td class='places'>{places}{more}</td></tr>"
        )
    head = "<tr><th>code</th><th>times</th><th>what</th><th>where</th></tr>"
    return f"<section><h2>Findings</h2><table class='findings'>{head}{''.join(rows)}</table></section>"


def _anchor(found: Diagnostic) -> str:
    return _escaped(f"{found.path}:{found.line}".replace(" ", "_"))


def _file(number: int, output: Output, found: Sequence[Diagnostic]) -> str:
    heading = f"<h2 id='file{number}'>{_escaped(output.member.place)}</h2>"
    whole = "".join(_remark(one) for one in found if not one.line)
    source = output.member.source
    if source is None or output.text is None:
        return f"<section>{heading}{whole}<p class='quiet'>Copied as it is.</p></section>"
    by_line: dict[int, list[Diagnostic]] = {}
    for one in found:
        by_line.setdefault(one.line, []).append(one)
    texts = output.shown
    before, after = (_lines(text) for text in texts)
    rows = []
    for left, right, changed in _aligned(*(text.splitlines() for text in texts)):
        rows.append(_row(left, right, changed, before, after))
        for one in by_line.get(left + 1, []) if left is not None else []:
            rows.append(f"<tr class='note-row' id='{_anchor(one)}'><td></td><td colspan='3'>{_remark(one)}</td></tr>")
    head = "<tr><th></th><th>before</th><th></th><th>after</th></tr>"
    table = f"<div class='scroll'><table class='code'>{head}{''.join(rows)}</table></div>"
    return f"<section>{heading}{whole}{table}</section>"


def _remark(found: Diagnostic) -> str:
    return (
        f"<p class='remark {found.severity}'><b>{found.code}</b> {_escaped(found.message)} "
        f"<span class='quiet'>{_escaped(found.help)}</span></p>"
    )


def _row(left: int | None, right: int | None, changed: bool, before: Sequence[str], after: Sequence[str]) -> str:
    def cells(index: int | None, lines: Sequence[str], side: str) -> str:
        if index is None:
            return f"<td class='number'></td><td class='{side} gap'></td>"
        kind = f"{side}{' changed' if changed else ''}"
        return f"<td class='number'>{index + 1}</td><td class='{kind}'><pre>{lines[index] or ' '}</pre></td>"

    return f"<tr>{cells(left, before, 'before')}{cells(right, after, 'after')}</tr>"


def _lines(text: str) -> list[str]:
    """The lines of Python code with their colours."""
    coloured = highlight(text, PythonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True))
    lines = coloured.split("\n")
    return lines + [""] * (len(text.splitlines()) - len(lines))


def _aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int | None, int | None, bool]]:
    """Rows: the line before, the line after, and whether they differ."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        for number in range(max(i_end - i, j_end - j)):
            left, right = i + number, j + number
            yield left if left < i_end else None, right if right < j_end else None, tag != "equal"

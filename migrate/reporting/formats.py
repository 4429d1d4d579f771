"""Reports for machines: JSON, SARIF 2.1.0, GitHub's annotations. And the text that people read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from urllib.parse import quote

from migrate import __version__
from migrate.diagnostics import CODES, Diagnostic, Report, Severity
from migrate.reporting.effort import estimate

NOT_VERIFIED = "not verified"
STAGES = {"spec": NOT_VERIFIED, "numeric": NOT_VERIFIED, "behavioural": NOT_VERIFIED}

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.NOTE: "note", Severity.ERROR: "error", Severity.FATAL: "error"}


def formatted(report: Report, format: str, stages: Mapping[str, str] = STAGES) -> str:
    """A report in one of the formats of `settings.FORMATS`."""
    if format == "json":
        return as_json(report, stages)
    if format == "sarif":
        return as_sarif(report)
    if format == "github":
        return "".join(_annotation(found) for found in report.diagnostics)
    return report.as_text()


def as_json(report: Report, stages: Mapping[str, str] = STAGES) -> str:
    """Stages, effort and findings."""
    body = {"version": 1, "stages": dict(stages), "effort": estimate(report.diagnostics)}
    return json.dumps(body | {"diagnostics": [found.as_json() for found in report.diagnostics]}, indent=2) + "\n"


def as_sarif(report: Report) -> str:
    """SARIF 2.1.0, which code scanners and editors read."""
    used = sorted({found.code for found in report.diagnostics})
    rules = [
        {
            "id": name,
            "name": "".join(word.capitalize() for word in CODES[name].title.split() if word.isalpha()) or name,
            "shortDescription": {"text": CODES[name].title},
            "fullDescription": {"text": CODES[name].explanation},
            "help": {"text": CODES[name].help},
            "defaultConfiguration": {"level": _LEVELS[CODES[name].severity]},
        }
        for name in used
    ]
    results = [_result(found, used.index(found.code)) for found in report.diagnostics]
    driver = {"name": "migrate", "semanticVersion": __version__.partition(".dev")[0], "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(found: Diagnostic, rule: int) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": _uri(found.path)}}
    if found.line and not found.cell:  # the lines of a cell are not those of the file
        place["region"] = {"startLine": found.line, "startColumn": max(found.column, 1)}
        if found.source.strip():
            place["region"] = {**place["region"], "snippet": {"text": found.source}}  # type: ignore[dict-item]
    return {
        "ruleId": found.code,
        "ruleIndex": rule,
        "level": _LEVELS[found.severity],
        "message": {"text": _message(found)},
        "locations": [{"physicalLocation": place}],
    }


def _uri(path: str) -> str:
    pure = PurePath(path)
    return pure.as_uri() if pure.is_absolute() else quote(pure.as_posix())


def _annotation(found: Diagnostic) -> str:
    level = {Severity.NOTE: "notice"}.get(found.severity, "error")
    place = f"file={_property(found.path)}"
    if found.line and not found.cell:
        place += f",line={found.line},col={max(found.column, 1)}"
    title = _property(f"{found.code} {CODES[found.code].title}")
    return f"::{level} {place},title={title}::{_data(_message(found))}\n"


def _message(found: Diagnostic) -> str:
    return f"cell {found.cell}, line {found.cell_line}: {found.message}" if found.cell else found.message


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

"""What the gate writes for machines: JSON, JUnit and SARIF; and a Markdown summary for the page of a CI job."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from parity import judge
from parity.gate import SCHEMA_VERSION, GateResult, Judged, Place
from parity.judge import Check

TOP = 10  # how many of the worst tensors the summary names


def to_json(result: GateResult) -> str:
    """Everything; figures that are not finite are null. The guide lists the fields; `version` counts their changes."""
    data = {
        "format": "migrate-gate",
        "version": SCHEMA_VERSION,
        "verdict": ("pass", "fail", "undecided")[result.exit_code],
        "exit_code": result.exit_code,
        "headline": result.headline,
        "config": result.config,
        "seconds": round(result.seconds, 1),
        "environment": result.environment,
        "errors": list(result.errors),
        "notes": list(result.notes),
        "subjects": [_subject(subject) for subject in result.judged],
    }
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _subject(subject: Judged) -> dict[str, Any]:
    compared = subject.result
    first = subject.first
    return {
        "name": subject.name,
        "torch": compared.script,
        "jax": compared.rewritten,
        "status": subject.status,
        "versions": compared.versions,
        "options": subject.options,
        "inputs": subject.inputs,
        "certificates": subject.certificates,
        "first_divergence": None if first is None else {
            "tensor": first.tensor,
            "rule": first.rule,
            "message": first.message,
            "torch": _place(subject.torch_place),
            "jax": _place(subject.jax_place),
            "origin": subject.origin,
        },
        "losses": [[step.torch, step.jax] if step.finite else None for step in compared.steps],
        "notes": list(subject.notes),
        "checks": [_check(check) for check in subject.checks],
    }  # fmt: skip


def _place(place: Place | None) -> dict[str, Any] | None:
    return place and {"file": place.file, "line": place.line, "text": place.text}


def _check(check: Check) -> dict[str, Any]:
    figures = {key: value if math.isfinite(value) else None for key, value in
               (("value", check.value), ("limit", check.limit))}  # fmt: skip
    return {"mode": check.mode, "tensor": check.tensor, "rule": check.rule, "status": check.status, **figures,
            "message": check.message, "owner": check.owner}  # fmt: skip


# --- JUnit -----------------------------------------------------------------------------------------------------------


def to_junit(result: GateResult) -> str:
    """One suite for each subject and mode, one case for each tensor and rule; what was not decided is an error."""
    root = ElementTree.Element("testsuites", name="migrate gate", time=f"{result.seconds:.3f}")
    for subject in result.judged:
        for mode in dict.fromkeys(check.mode for check in subject.checks):
            checks = [check for check in subject.checks if check.mode == mode]
            _suite(root, f"{subject.name} [{mode}]", checks)
    if result.errors:
        errors = [judge.undecided("gate", "-", "configuration", error) for error in result.errors]
        _suite(root, "gate", errors)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ElementTree.Element, name: str, checks: list[Check]) -> None:
    failed = sum(check.status == "fail" for check in checks)
    undecided = sum(check.status == "undecided" for check in checks)
    suite = ElementTree.SubElement(
        root, "testsuite", name=name, tests=str(len(checks)), failures=str(failed), errors=str(undecided)
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=f"{check.tensor} ({check.rule})")
        if check.status != "pass":
            kind = "failure" if check.status == "fail" else "error"
            ElementTree.SubElement(case, kind, type=check.rule, message=_printable(check.message))


def _printable(text: str) -> str:
    """XML 1.0 has no control characters, escaped or not."""
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)


# --- SARIF -----------------------------------------------------------------------------------------------------------


def to_sarif(result: GateResult, root: Path | None = None) -> str:
    """SARIF 2.1.0: one result for each subject that did not pass, at the JAX line of its first divergence."""
    root = (root or Path.cwd()).resolve()
    rules = [
        {"id": rule, "name": rule.title().replace("-", ""), "shortDescription": {"text": text}}
        for rule, text in judge.RULES.items()
    ]
    driver = {"name": "migrate gate", "version": result.environment["migrate"], "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": list(_findings(result, root)),
        "invocations": [{
            "executionSuccessful": result.exit_code != 2,
            "exitCode": result.exit_code,
            "toolExecutionNotifications": [
                {"level": "error", "message": {"text": error}} for error in result.errors
            ],
        }],
    }  # fmt: skip
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"


def _findings(result: GateResult, root: Path) -> Iterator[dict[str, Any]]:
    for subject in result.judged:
        first = subject.first
        if first is None:
            continue
        failed = sum(check.status == "fail" for check in subject.checks)
        text = f"{subject.name}: {first.message}"
        text += f" ({failed} tensors beyond their budgets)" if failed > 1 else ""
        text += f"; {subject.origin}" if subject.origin else ""
        found = {
            "ruleId": first.rule,
            "ruleIndex": list(judge.RULES).index(first.rule),
            "level": "error" if first.status == "fail" else "warning",
            "message": {"text": text},
            "partialFingerprints": {"subjectTensor/v1": f"{subject.name}|{first.tensor}|{first.rule}"},
        }
        if subject.jax_place:
            found["locations"] = [_location(subject.jax_place, root)]
        if subject.torch_place:
            found["relatedLocations"] = [
                {"id": 1, "message": {"text": "the same layer in torch"}} | _location(subject.torch_place, root)
            ]
        yield found


def _location(place: Place, root: Path) -> dict[str, Any]:
    path = Path(place.file).resolve()
    uri = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_uri()
    region: dict[str, Any] = {"startLine": place.line}
    if place.text:
        region["snippet"] = {"text": place.text}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


# --- Markdown --------------------------------------------------------------------------------------------------------


def to_markdown(result: GateResult) -> str:
    """What a CI job shows: the verdict, a line for each subject, the worst tensors and the least budget they need."""
    lines = [f"### migrate gate: {result.headline}", ""]
    lines += [f"- {_cell(error)}" for error in (*result.errors, *result.notes)]
    lines += [
        "",
        "| subject | verdict | compared | worst error / torch's own | first divergence |",
        "|---|---|---|---|---|",
    ]
    for subject in result.judged:
        first = subject.first
        where = f" at `{subject.jax_place.file}:{subject.jax_place.line}`" if first and subject.jax_place else ""
        said = f"{_cell(first.message)}{where}" if first else ""
        lines.append(
            f"| {_cell(subject.name)} | {subject.status} | {len(subject.checks)} | {_worst(subject)} | {said} |"
        )
    worst = result.worst[:TOP]
    if worst:
        lines += ["", "Closest to their budgets, or furthest beyond them:", ""]
        lines += ["| tensor | mode | error | budget | least budget that passes |", "|---|---|---|---|---|"]
        for check in worst:
            name = f"{_cell(check.subject)}: {_cell(check.tensor)}"
            figures = f"{check.value:.3g} | {check.limit:.3g} | {_rounded_up(check.value)}"
            lines.append(f"| {name} | {check.mode} | {figures} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


def _worst(subject: Judged) -> str:
    ratios = [check.value for check in subject.checks if check.rule == judge.PRECISION and not math.isnan(check.value)]
    return f"{max(ratios):.2f}" if ratios else ""


def _rounded_up(value: float) -> str:
    """The figure to two digits, never below it."""
    if not math.isfinite(value) or value <= 0:
        return "none" if value else "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.2g}"

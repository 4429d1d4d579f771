"""What `migrate gate` does between the command line and the gate."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from migrate.diagnostics import ExitCode
from migrate.files.source import write_whole
from parity import gate_config
from parity.codes import ParityError

# What is written into the folder of --out. Those of an earlier run are removed first: a stale report is no report.
OUTPUTS = ("gate.json", "gate.junit.xml", "gate.sarif", "gate.md", "gate.html")
_STYLES = {"pass": "green", "fail": "bold red", "undecided": "yellow"}


def gate(
    path: Path | None, only: list[str], out: Path | None, update_baseline: bool, timeout: float | None = None
) -> int:
    """Holds every subject against its budgets; prints, writes and returns the exit code."""
    try:
        if out is not None:
            _clear(out)
        config = _chosen(gate_config.read(gate_config.find(path)), only)
        config = replace(config, timeout=timeout) if timeout else config
        if update_baseline and config.ratchet is None:
            raise ParityError("PAR211", f"{config.path}: name the baseline first: ratchet = 'parity-baseline.json'")
        return _held(config, out, update_baseline, partial=bool(only))
    except (ParityError, OSError) as error:
        print(error, file=sys.stderr)
        return int(ExitCode.UNUSABLE)


def _held(config: gate_config.GateConfig, out: Path | None, update_baseline: bool, partial: bool) -> int:
    from parity import gate, gate_formats, gate_page

    result = gate.run(replace(config, ratchet=None) if update_baseline else config)
    if out is not None:
        texts = (
            gate_formats.to_json(result),
            gate_formats.to_junit(result),
            gate_formats.to_sarif(result),
            gate_formats.to_markdown(result),
            gate_page.to_html(result),
        )
        for name, text in zip(OUTPUTS, texts, strict=True):
            write_whole(out / name, text)
    show(result, Console())
    if update_baseline and result.exit_code == 0:
        assert config.ratchet is not None
        gate.write_baseline(result, config.ratchet, partial=partial)
        print(f"baseline: {config.ratchet}")
    elif update_baseline:
        print("the baseline was left as it is: only what passes may become one", file=sys.stderr)
    if out is not None:
        print(f"report: {out / 'gate.html'}")
    return result.exit_code


def _clear(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in OUTPUTS:
        (out / name).unlink(missing_ok=True)


def _chosen(config: gate_config.GateConfig, only: list[str]) -> gate_config.GateConfig:
    known = [subject.name for subject in config.subjects]
    for name in only:
        if name not in known:
            raise ParityError("PAR211", f"{config.path}: no subject {name!r}; there are {', '.join(known)}")
    chosen = tuple(subject for subject in config.subjects if not only or subject.name in only)
    return replace(config, subjects=chosen)


def show(result, console: Console) -> None:
    """The verdict of each subject, what failed, and the closest to its budget."""
    table = Table(
        "subject", "verdict", "within", "beyond", "not decided", box=None, pad_edge=False, header_style="bold"
    )
    for subject in result.judged:
        counts = [str(sum(c.status == status for c in subject.checks)) for status in _STYLES]
        table.add_row(subject.name, Text(subject.status, _STYLES[subject.status]), *counts)
    console.print(table)
    for subject in result.judged:
        _show_first(subject, console)
    for error in result.errors:
        console.print(Text(error, style="red"), soft_wrap=True)
    for note in result.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    console.print(Text(result.headline, style="bold green" if result.exit_code == 0 else "bold red"))


def _show_first(subject, console: Console) -> None:
    if subject.first is None:
        return
    console.print(Text(f"{subject.name}: first divergence: {subject.first.message}", style="bold"), soft_wrap=True)
    for side, place in (("torch", subject.torch_place), ("JAX", subject.jax_place)):
        if place:
            console.print(Text(f"  {side:5} {place.file}:{place.line}: {place.text}"), soft_wrap=True)
    if subject.origin:
        console.print(Text(f"  {subject.origin}"), soft_wrap=True)


def self_test() -> int:
    """Seeded mistakes must all be caught, correct ports all pass; prints each and returns the exit code."""
    from parity import selftest

    console = Console()
    tried = []
    for one in selftest.run():
        tried.append(one)
        said = "refused" if one.findings else "passed"
        where = f": {one.findings[0].message}" if one.findings else ""
        line = Text(f"{said:8}", "green" if one.as_expected else "bold red").append(f"{one.model}  {one.name}{where}")
        console.print(line, soft_wrap=True)
    missed = [one.name for one in tried if not one.correct and not one.findings]
    alarmed = [one.name for one in tried if one.correct and one.findings]
    mistakes = sum(not one.correct for one in tried)
    text = f"{mistakes - len(missed)} of {mistakes} mistakes caught, "
    text += f"{len(tried) - mistakes - len(alarmed)} of {len(tried) - mistakes} correct ports passed"
    console.print(Text(text, style="bold red" if missed or alarmed else "bold green"))
    for names, what in ((missed, "missed"), (alarmed, "refused, although correct")):
        if names:
            console.print(Text(f"{what}: {', '.join(names)}", style="bold red"))
    return int(ExitCode.FINDINGS if missed or alarmed else ExitCode.DONE)

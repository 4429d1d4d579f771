"""A survey: what a conversion of a whole repository would find, without writing anything.

Files that import one another are looked at together, parts that share no file in processes of their own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from migrate.diagnostics import CODES, Diagnostic, Fatal, Severity, our_fault
from migrate.files.project import read_project
from migrate.files.reached_files import independent_parts, shown
from migrate.pipeline import Output, convert_project
from migrate.reporting.effort import estimate, minutes
from migrate.reporting.formats import STAGES
from migrate.reporting.selection import Selection

_MOST = 20  # lines of a table of the text


@dataclass(frozen=True)
class Surveyed:
    """One file that has to do with torch: whether a conversion would change it, and what it would find."""

    path: str
    changed: bool
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def needs_a_person(self) -> int:
        """How many of its findings are more than notes."""
        return sum(found.severity is not Severity.NOTE for found in self.diagnostics)


@dataclass(frozen=True)
class Survey:
    """What was found: `looked_at` counts all Python files, `files` are those that have to do with torch."""

    looked_at: int
    files: tuple[Surveyed, ...]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Every finding, by place."""
        return sorted({found for file in self.files for found in file.diagnostics})

    def selected(self, selection: Selection) -> Survey:
        """The survey with the findings that are asked for."""
        files = (replace(f, diagnostics=tuple(d for d in f.diagnostics if d in selection)) for f in self.files)
        return replace(self, files=tuple(files))


def survey(files: Sequence[Path], jobs: int | None = None) -> Survey:
    """Looks at files in `jobs` processes, by default one for each core. A progress bar shows on a terminal."""
    parts = independent_parts(files)
    found: list[Surveyed] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("analysing", total=sum(map(len, parts)))
        for part, surveyed in _all_surveyed(parts, jobs or len(os.sched_getaffinity(0))):
            found += surveyed
            progress.advance(task, len(part))
    return Survey(len(files), tuple(sorted(found, key=lambda file: file.path)))


def _all_surveyed(parts: Sequence[list[Path]], jobs: int) -> Iterator[tuple[list[Path], list[Surveyed]]]:
    """The largest parts first, so that no process is left with one of them at the end."""
    ordered = sorted(parts, key=lambda part: -sum(path.stat().st_size for path in part if path.is_file()))
    if jobs == 1 or len(parts) < 2:
        yield from ((part, surveyed(part)) for part in ordered)
        return
    context = multiprocessing.get_context("spawn")  # a copy of a process with threads may hang
    with ProcessPoolExecutor(min(jobs, len(parts)), context) as pool:
        running = {pool.submit(surveyed, part): part for part in ordered}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def surveyed(part: list[Path]) -> list[Surveyed]:
    """Looks at files that are converted together."""
    try:
        return [_of(output) for output in convert_project(read_project(part)).outputs]
    except Fatal as error:
        return [Surveyed(error.diagnostic.path, False, (error.diagnostic,))]
    except Exception as error:
        return [Surveyed(str(part[0]), False, (our_fault(str(part[0]), error),))]


def _of(output: Output) -> Surveyed:
    path = output.member.source.path if output.member.source else shown(output.member.path)
    return Surveyed(path, output.changed, output.diagnostics)


def as_json(found: Survey) -> str:
    """The survey for machines: the keys of a report (`formats.as_json`), and a summary, and each file's."""
    diagnostics = found.diagnostics
    files = [
        {
            "path": file.path,
            "changed": file.changed,
            "needs_a_person": file.needs_a_person,
            "effort": estimate(file.diagnostics),
        }
        for file in found.files
    ]
    body = {
        "version": 1,
        "stages": STAGES,
        "minutes": minutes(diagnostics),
        "looked_at": found.looked_at,
        "codes": dict(Counter(one.code for one in diagnostics).most_common()),
        "files": files,
        "diagnostics": [one.as_json() for one in diagnostics],
    }
    return json.dumps(body, indent=2) + "\n"


def as_text(found: Survey, every: bool = False) -> str:
    """The survey for people: findings by code and by what they say, the files with most of them, the sum. `every`: each
    finding at its place before that."""
    diagnostics = found.diagnostics
    lines = [str(one) for one in diagnostics] if every else []
    codes = Counter(one.code for one in diagnostics)
    if codes:
        lines += ["", "findings by code", *(f"{n:7}  {code}  {CODES[code].title}" for code, n in codes.most_common())]
    said = Counter(f"{one.code}  {one.message}" for one in diagnostics if one.severity is not Severity.NOTE)
    if said:
        lines += ["", "most frequent", *(f"{n:7}  {text[:110]}" for text, n in said.most_common(_MOST))]
    worst = sorted((file for file in found.files if file.needs_a_person), key=lambda file: -file.needs_a_person)
    if worst:
        lines += ["", "files that need a person"]
        lines += [f"{file.needs_a_person:7}  {estimate(file.diagnostics):8}  {file.path}" for file in worst[:_MOST]]
        lines += [f"{'':7}  and {len(worst) - _MOST} more"] * (len(worst) > _MOST)
    return "\n".join([*lines, "", _sum(found)]).lstrip("\n") + "\n"


def _sum(found: Survey) -> str:
    """The last line."""
    needing = sum(file.needs_a_person > 0 for file in found.files)
    whole = sum(file.changed and not file.needs_a_person for file in found.files)
    places = sum(file.needs_a_person for file in found.files)
    efforts = Counter(estimate(file.diagnostics) for file in found.files if file.needs_a_person)
    work = ", ".join(f"{efforts[name]} {name}" for name in ("minutes", "hours", "redesign") if efforts[name])
    time = minutes(found.diagnostics)
    left = f"; work left by file: {work} (about {round(time / 60) or 1} h in all)" if time else ""
    return (
        f"{found.looked_at} files, {len(found.files)} with torch: {whole} convert without findings, {needing} need a "
        f"person at {places} places{left}; numbers not verified (run `migrate parity`)"
    )

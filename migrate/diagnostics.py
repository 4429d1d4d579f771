"""What is said about an input: a diagnostic at its place, the report of a run, the exit codes."""

from __future__ import annotations

import enum
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrate.codes import CODES, Severity


class ExitCode(enum.IntEnum):
    """The exit codes of every sub-command."""

    DONE = 0
    FINDINGS = 1
    UNUSABLE = 2


@dataclass(frozen=True, order=True)
class Diagnostic:
    """A finding at its place. Lines and columns count from 1, as editors do."""

    path: str
    line: int
    column: int
    code: str
    message: str
    source: str = field(default="", compare=False)
    cell: int = field(default=0, compare=False)  # of a notebook, from 1: `line` counts through the cells of code
    cell_line: int = field(default=0, compare=False)

    @property
    def spot(self) -> str:
        """The line, in a notebook that of a cell."""
        return f"cell {self.cell}:{self.cell_line}" if self.cell else str(self.line)

    @property
    def severity(self) -> Severity:
        """How bad it is: by its code."""
        return CODES[self.code].severity

    @property
    def help(self) -> str:
        """One line on what to do about it."""
        return CODES[self.code].help

    def __str__(self) -> str:
        place = f"{self.path}:{self.spot}:{self.column}" if self.line else self.path
        text = f"{place}: {self.code} {self.message}"
        if self.source.strip():
            text += f"\n    {self.source.strip()}"
        return f"{text}\n    help: {self.help}"

    def as_json(self) -> dict[str, object]:
        """The fields as `--format json` prints them."""
        cell = {"cell": self.cell} if self.cell else {}
        return {
            "path": self.path,
            **cell,
            "line": self.cell_line if self.cell else self.line,
            "column": self.column,
            "code": self.code,
            "severity": str(self.severity),
            "message": self.message,
            "source": self.source,
            "help": self.help,
        }


class Unsupported(Exception):
    """Raised by a rule or a pass to decline a place; the pipeline turns it into a Diagnostic there."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        assert code in CODES, code
        self.code = code
        self.message = message


class Fatal(Exception):
    """An input that cannot be used at all."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


def our_fault(path: str, error: Exception) -> Diagnostic:
    """The finding for an exception that no input should have caused."""
    if isinstance(error, RecursionError):
        return Diagnostic(path, 0, 0, "MIG900", "the code nests too deeply")
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {error}".split())
    return Diagnostic(path, 0, 0, "MIG900", text if len(text) < 300 else f"{text[:300]} …")


@dataclass(frozen=True)
class Report:
    """Every finding of a run, in order of place. `left_out`: how many errors there are that nobody asked for."""

    diagnostics: tuple[Diagnostic, ...] = ()
    left_out: int = 0

    @staticmethod
    def of(diagnostics: Iterable[Diagnostic]) -> Report:
        """A report of these findings, each once."""
        return Report(tuple(sorted(set(diagnostics))))

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that found this much."""
        severities = {diagnostic.severity for diagnostic in self.diagnostics}
        if Severity.FATAL in severities:
            return ExitCode.UNUSABLE
        return ExitCode.FINDINGS if Severity.ERROR in severities else ExitCode.DONE

    def summary(self, inputs: Sequence[str]) -> str:
        """The last line of a report: how many findings of which severity."""
        errors = sum(d.severity is not Severity.NOTE for d in self.diagnostics)
        notes = len(self.diagnostics) - errors
        what = inputs[0] if len(inputs) == 1 else f"{len(inputs)} files"
        need = "nothing needs a person" if not errors else f"{errors} places need a person"
        need = "1 place needs a person" if errors == 1 else need
        hidden = f", {self.left_out} more left out of this report" if self.left_out else ""
        need = "nothing shown here needs a person" if hidden and not errors else need
        return f"{what}: {need}{hidden}, {notes} note{'s' * (notes != 1)}"

    def as_text(self) -> str:
        """The report as people read it."""
        return "".join(f"{diagnostic}\n" for diagnostic in self.diagnostics)

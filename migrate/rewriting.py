"""What `migrate rewrite` does between the command line and the passes: what is read, what is written where."""

from __future__ import annotations

import difflib
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from migrate import manifest as manifests
from migrate.diagnostics import Diagnostic, ExitCode, Fatal, Report, Severity
from migrate.files.imports import reached, written_imports
from migrate.files.notebook import read_notebook
from migrate.files.project import Project, python_files, read_project, single
from migrate.files.reached_files import uses_torch
from migrate.files.source import decode, parse
from migrate.options import DEFAULT, Options
from migrate.pipeline import Output, ProjectConversion, convert_project
from migrate.reporting.formats import NOT_VERIFIED, STAGES
from migrate.reporting.verdicts import VerdictError, stages_of

STDIN = "-"
# As outputs read checkpoints.
_READING = re.compile(r"\b(msgpack_restore|from_bytes|checkpoint_from_bytes|restore_with_orbax)\(")


class UsageError(Exception):
    """What was asked for cannot be done. The message says why, and what to ask for instead."""


@dataclass(frozen=True)
class Rewritten:
    """A converted project and where it goes."""

    project: Project
    conversion: ProjectConversion

    @property
    def alone(self) -> bool:
        """Whether one script was asked for and nothing but it changes: then one file is written."""
        if len(self.project.scripts) != 1:
            return False
        return not any(output.changed for output in self.conversion.outputs if output is not self.script)

    @property
    def script(self) -> Output:
        """What the first script that was asked for became."""
        return next(o for o in self.conversion.outputs if o.member.path == self.project.scripts[0])

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Every finding, and a note where there was nothing to do."""
        found = list(self.conversion.report.diagnostics)
        if not found and not any(output.changed for output in self.conversion.outputs):
            member = self.script.member
            what = "uses no torch API that is rewritten" if member.data.strip() else "is empty"
            found.append(Diagnostic(member.source.path if member.source else str(member.path), 0, 0, "MIG101", what))
        return found

    @property
    def usable(self) -> bool:
        """Whether anything could be converted at all."""
        return any(output.text is not None for output in self.conversion.outputs)

    def exit_code(self, report: Report) -> ExitCode:
        """A file that cannot be used costs the run only where it is the only one."""
        code = report.exit_code
        return ExitCode.FINDINGS if code is ExitCode.UNUSABLE and self.usable else code


def rewritten(
    paths: Sequence[str], exclude: Sequence[str] = (), output: Path | None = None, options: Options = DEFAULT
) -> Rewritten:
    """Converts what was named: a script with what it imports, folders, several files, or `-`.

    Raises Fatal, UsageError.
    """
    if "" in paths:
        raise UsageError("a PATH is empty: is a variable of the shell not set?")
    if STDIN in paths:
        if len(paths) > 1:
            raise UsageError("- stands alone: standard input is one script")
        project = _standard_input()
    else:
        without = [output] if output is not None and output.is_dir() else []
        files = python_files(map(Path, paths), without, exclude)
        if not files:
            raise UsageError(f"{', '.join(paths)}: holds no Python file")
        project = read_project(files)
    return Rewritten(project, convert_project(project, options))


def _standard_input() -> Project:
    text, encoding = decode("<stdin>", sys.stdin.buffer.read())
    notebook = read_notebook("<stdin>", text) if text.lstrip()[:1] == "{" else None
    text = text if notebook is None else notebook.text
    project = single(parse("<stdin>", text, encoding, notebook))
    here = Path.cwd() / "stdin.py"
    unread = {}
    for written in written_imports(text):
        for module, path in reached(here, written, [here]):
            if path.is_file() and uses_torch(path):
                unread[module] = "uses torch, and imports of standard input are not followed: name the file instead"
    return project.with_unread(unread)


def write(made: Rewritten, output: Path | None, manifest: Path | None) -> Path | None:
    """Writes the outputs and the weight manifest; returns the folder of a project, None for a single file. Raises
    UsageError before anything is written where an input would be."""
    stdin = made.script.member.path == Path("<stdin>")
    if str(output) == "-" or (output is None and stdin):
        if not made.alone:
            raise UsageError(_needs_folder(made))
        if made.script.text is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(made.script.data)  # in the encoding that its first lines name
            sys.stdout.buffer.flush()
        if manifest is not None:
            _write_manifest(made, manifest)
        return None
    target = output or _default_output(made)
    one = made.alone and target.suffix in (".py", ".ipynb") and not target.is_dir()
    if not one and target.suffix in (".py", ".ipynb") and not target.is_dir():
        raise UsageError(_needs_folder(made))
    outputs = {target: made.script} if one else {target / o.member.place: o for o in made.conversion.outputs}
    inputs = {member.path.resolve(): member for member in made.project.members}
    for path in outputs:
        if not stdin and path.resolve() in inputs:
            raise UsageError(f"{path}: is the input, which is never overwritten; choose another --output")
    for path, found in outputs.items():
        _write_file(path, found)
    if manifest is not None or made.conversion.manifest.models:
        _write_manifest(made, manifest or (target.parent if one else target) / "weights.json")
    return None if one else target


def _default_output(made: Rewritten) -> Path:
    """SCRIPT_jax.py beside a script on its own, SCRIPT_jax/ beside one with its project, FOLDER_jax/ for a folder."""
    first = made.project.scripts[0]
    if len(made.project.scripts) > 1:
        return made.project.root.with_name(f"{made.project.root.name}_jax")
    shown = Path(made.script.member.source.path if made.script.member.source else first)
    return shown.with_name(f"{first.stem}_jax{first.suffix if made.alone else ''}")


def _needs_folder(made: Rewritten) -> str:
    others = [o.member.place for o in made.conversion.outputs if o.changed and o is not made.script]
    named = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
    return f"{made.script.member.place} is converted together with {named}: name a folder with --output"


def _write_file(path: Path, output: Output) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with manifests.replacing(path) as file:
            file.write(output.data)
        if output.member.path.is_file():
            shutil.copymode(output.member.path, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _write_manifest(made: Rewritten, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        manifests.write(made.conversion.manifest, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def diff(made: Rewritten) -> str:
    """What would change, as a unified diff."""
    text = ""
    for output in made.conversion.outputs:
        source = output.member.source
        if source is None or output.text is None:
            continue
        before, after = (text.splitlines(keepends=True) for text in output.shown)
        for line in difflib.unified_diff(before, after, source.path, f"{source.path} (jax)"):
            text += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    return text


def stages(made: Rewritten, report: Report, verified: Path | None) -> Mapping[str, str]:
    """What is verified of a conversion, by a report of `migrate parity`. Raises UsageError."""
    if verified is None:
        return STAGES
    whole = report.exit_code is ExitCode.DONE
    try:
        return stages_of(verified, made.script.member.data, made.script.data, whole)
    except VerdictError as error:
        raise UsageError(str(error)) from None


def summary(made: Rewritten, report: Report, stages: Mapping[str, str] = STAGES) -> str:
    """The last line of a report."""
    verdict = "; ".join(f"{name}: {value}" for name, value in stages.items() if value != NOT_VERIFIED)
    verdict = verdict or "numbers not verified (run `migrate parity`)"
    if made.alone:
        member = made.script.member
        return f"{report.summary([member.source.path if member.source else member.path.name])}; {verdict}"
    changed = sum(output.changed for output in made.conversion.outputs)
    files = [output.member.place for output in made.conversion.outputs]
    return f"{report.summary(files)}; {changed} rewritten; {verdict}"


def hint(made: Rewritten) -> str:
    """What is worth knowing of a script that reads checkpoints: how it goes on from those that torch has saved. "" for
    others."""
    reads = any(_READING.search(output.text or "") for output in made.conversion.outputs)
    if not reads or not made.conversion.manifest.saved:
        return ""
    return "torch's checkpoints: `migrate port-weights FILE --manifest weights.json --as-saved -o FILE.msgpack`"


def fatal_only(error: Fatal) -> Report:
    """The report of an input that cannot be used at all."""
    assert error.diagnostic.severity is Severity.FATAL
    return Report((error.diagnostic,))

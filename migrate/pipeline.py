"""convert(): the passes in order, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from migrate import checks
from migrate.diagnostics import Diagnostic, Fatal, Report, Severity
from migrate.emit import emit
from migrate.lowering import lower
from migrate.manifest import Manifest
from migrate.source import SourceFile
from migrate.weights import manifest_of


@dataclass(frozen=True)
class Conversion:
    """What one input became. `text` is the input's own where nothing was rewritten."""

    text: str
    manifest: Manifest
    report: Report

    def changed(self, source: SourceFile) -> bool:
        """Whether anything was rewritten."""
        return self.text != source.text


def convert(source: SourceFile) -> Conversion:
    """Rewrites one parsed file. Raises Fatal (MIG900) on a bug of our own, with nothing written."""
    try:
        lowered = lower(source)
        text = emit(source, lowered)
    except RecursionError:
        raise Fatal(Diagnostic(source.path, 0, 0, "MIG900", "the code nests too deeply")) from None
    broken = checks.compiles(source.path, text)
    if any(diagnostic.severity is Severity.FATAL for diagnostic in broken):
        raise Fatal(broken[0])
    found = [*lowered.diagnostics, *checks.undefined(source.path, source.text, text, lowered.refused)]
    if text == source.text and not found:
        what = "uses no torch API that is rewritten" if source.text.strip() else "is empty"
        found.append(Diagnostic(source.path, 0, 0, "MIG101", what))
    return Conversion(text, manifest_of(lowered.script, source.path.rpartition("/")[2]), Report.of(found))

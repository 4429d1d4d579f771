"""Which findings are reported: by code, and by comments in the user's code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from migrate.diagnostics import CODES, Diagnostic, Report, Severity
from migrate.reporting.settings import Settings

_COMMENT = re.compile(r"#\s*migrate:\s*ignore(?:\[(?P<codes>[^\]]*)\])?")


@dataclass(frozen=True)
class Selection:
    """The findings that are asked for. What makes a file unusable is always reported."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @staticmethod
    def of(settings: Settings) -> Selection:
        """The selection of some settings. Raises ValueError for a code that there is not."""
        for prefix in (*settings.select, *settings.ignore):
            if not any(code.startswith(prefix) for code in CODES):
                raise ValueError(f"{prefix}: no code begins so; `migrate explain CODE` knows them, such as MIG301")
        return Selection(settings.select, settings.ignore)

    def __contains__(self, found: Diagnostic) -> bool:
        if found.severity is Severity.FATAL:
            return True
        if suppressed(found.source, found.code):
            return False
        chosen = not self.select or found.code.startswith(self.select)
        return chosen and not (self.ignore and found.code.startswith(self.ignore))

    def report(self, diagnostics: Iterable[Diagnostic]) -> Report:
        """A report of the findings that are asked for."""
        chosen, others = list[Diagnostic](), 0
        for found in Report.of(diagnostics).diagnostics:
            if found in self:
                chosen.append(found)
            elif found.severity is Severity.ERROR and not suppressed(found.source, found.code):
                others += 1
        return replace(Report.of(chosen), left_out=others)


def suppressed(line: str, code: str) -> bool:
    """Whether a line says `# migrate: ignore` of all codes, or `# migrate: ignore[MIG301, MIG3]` of this one."""
    found = _COMMENT.search(line)
    if found is None:
        return False
    codes = found["codes"]
    return codes is None or any(code.startswith(part.strip()) for part in codes.split(",") if part.strip())

"""How much work the findings leave: an estimate to plan by, not a measurement."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.diagnostics import Diagnostic, Severity

# Minutes for somebody who knows torch and has met Flax. A line is looked up and rewritten; a class or a layer is
# written and its weights mapped; a training step is thought through with its state.
_MINUTES = {"MIG201": 60, "MIG202": 60, "MIG203": 30, "MIG204": 20, "MIG205": 60, "MIG401": 120, "MIG404": 90}
_LINE = 10

MINUTES, HOURS = 60, 16 * 60  # beyond two days of mending, writing the training code anew is the shorter way


def minutes(diagnostics: Iterable[Diagnostic]) -> int:
    """The minutes that findings may take, each place counted once for each code."""
    places = {(found.path, found.line, found.code): found for found in diagnostics}
    return sum(_MINUTES.get(f.code, _LINE) for f in places.values() if f.severity is not Severity.NOTE)


def estimate(diagnostics: Iterable[Diagnostic]) -> str:
    """ "none", "minutes", "hours" or "redesign"."""
    found = minutes(diagnostics)
    if not found:
        return "none"
    return "minutes" if found <= MINUTES else "hours" if found <= HOURS else "redesign"

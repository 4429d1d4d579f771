"""The three answers of every report: semantics, precision, decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity import tolerance
from parity.ladder import Rung, Sides, StepRow, Verdict, whole_outputs
from parity.measures import rms
from parity.record import Recording

if TYPE_CHECKING:
    from parity.result import ParityResult


@dataclass(frozen=True)
class Answer:
    """One line of a report: a question (semantics, precision, decisions), its verdict, and the figures behind it."""

    question: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True)
class Ladder:
    """A climb in one type: its rungs and losses, or the reason why there is none."""

    rungs: tuple[Rung, ...] = ()
    steps: tuple[StepRow, ...] = ()
    undecided: str = ""

    @property
    def differing(self) -> Rung | None:
        return next((rung for rung in self.rungs if rung.verdict is Verdict.DIFFERS), None)


def answers(result: ParityResult, wide: Ladder, sides: Sides, oracle: Recording | None) -> tuple[Answer, ...]:
    return semantics(wide), precision(result, sides, oracle), decisions(sides, oracle)


def semantics(wide: Ladder) -> Answer:
    """Whether both mean the same: both in float64, where rounding is ten orders of magnitude below any mistake."""
    if wide.undecided:
        return Answer("semantics", Verdict.NOT_COMPARED, f"not decided in float64: {wide.undecided}")
    if wide.differing is not None:
        return Answer("semantics", Verdict.DIFFERS, f"float64: {wide.differing.first}")
    # a limit far above its floor belongs to a quantity that is zero in exact arithmetic
    rows = [row for rung in wide.rungs for row in rung.rows if row.limit <= tolerance.SIGNIFICANT.relative]
    drift = max((row.drift for row in rows), default=0.0)
    worst = max((step.drift for step in wide.steps), default=0.0)
    return Answer("semantics", Verdict.EQUAL, f"float64: losses within {worst:.1e}, everything within {drift:.1e}")


def precision(result: ParityResult, sides: Sides, oracle: Recording | None) -> Answer:
    """Whether the rewrite rounds no worse: the errors of both in the type of the script, against float64."""
    differing = next((rung for rung in result.rungs if rung.verdict is Verdict.DIFFERS), None)
    if differing is not None:
        return Answer("precision", Verdict.DIFFERS, f"float32: {differing.first}")
    ratios = [ratio for ratio, _, _ in _ratios(sides, oracle)] if oracle else []
    if not ratios:
        return Answer("precision", Verdict.EQUAL, "float32: within torch's own spread; no oracle to measure against")
    ratio = max(ratios)
    limit = tolerance.ORACLE_RATIO.times
    text = f"float32: error of the outputs {ratio:.2g} times torch's own, against float64 (limit {limit:.0f})"
    return Answer("precision", Verdict.EQUAL if ratio <= limit else Verdict.DIFFERS, text)


def _ratios(sides: Sides, oracle: Recording) -> Iterator[tuple[float, float, float]]:
    """For each output of a whole model: the ratio of both errors, the error of JAX and that of torch."""
    for theirs, ours, exact in whole_outputs(sides, oracle):
        size = rms(exact)
        floor = tolerance.FLOAT32.ulp / 2 * size / 4
        error, own = rms(ours - exact), rms(theirs - exact)
        if size > 0:
            yield error / max(own, floor), error, own


def decisions(sides: Sides, oracle: Recording | None) -> Answer:
    """Whether both choose the same classes. Where the best two are closer than the noise, nothing is decided."""
    rows = flips = beyond = 0
    for theirs, ours, exact in whole_outputs(sides, oracle):
        if exact.ndim < 2 or exact.shape[-1] < 2:
            continue
        found = flipped(theirs, ours, exact)
        rows, flips, beyond = rows + found[0], flips + found[1], beyond + found[2]
    if not rows:
        return Answer("decisions", Verdict.NOT_COMPARED, "no model output with classes on its last axis")
    text = f"{rows - flips} of {rows} rows choose the same largest entry"
    if flips:
        text += f"; {beyond} of the {flips} others where the margin is larger than the noise"
    return Answer("decisions", Verdict.DIFFERS if beyond else Verdict.EQUAL, text)


def flipped(theirs: np.ndarray, ours: np.ndarray, exact: np.ndarray) -> tuple[int, int, int]:
    """(rows, rows whose largest entry is another, those of them whose margin in the oracle exceeds the row's noise)."""
    theirs, ours, exact = (x.reshape(-1, x.shape[-1]).astype(np.float64) for x in (theirs, ours, exact))
    flips = theirs.argmax(-1) != ours.argmax(-1)
    two = np.sort(exact, axis=-1)[:, -2:]
    margin = two[:, 1] - two[:, 0]
    noise = np.sqrt(np.mean(np.square(theirs - exact), axis=-1))
    beyond = flips & (margin > tolerance.MARGIN.times * noise) & (noise > 0)
    return len(exact), int(flips.sum()), int(beyond.sum())

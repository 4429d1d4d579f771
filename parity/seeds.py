"""Metrics of whole runs over seeds: whether two frameworks differ by more than seeds do."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from parity.codes import ParityError

LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    """Welch's two-sided t-test. `interval`: the difference of the means (second less first) with 95 % confidence;
    `detectable`: the difference that as many seeds would show in four of five repetitions. `p` None: no verdict."""

    counts: tuple[int, int]
    means: tuple[float, float]
    deviations: tuple[float, float]
    p: float | None
    interval: tuple[float, float] | None
    detectable: float | None

    @property
    def differs(self) -> bool | None:
        return None if self.p is None else self.p < LEVEL


def read(path: Path) -> np.ndarray:
    """One number for each seed: a JSON list, or an object whose values are numbers (seed: metric).

    Raises ParityError PAR211.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParityError("PAR211", f"{path} cannot be read: {error}") from None
    values = list(data.values()) if isinstance(data, dict) else data
    if not isinstance(values, list) or not values or not all(type(value) in (int, float) for value in values):
        raise ParityError("PAR211", f"{path}: expected one number for each seed, as in [2.21, 2.27] or {{'0': 2.21}}")
    if not all(math.isfinite(value) for value in values):
        raise ParityError("PAR211", f"{path}: a run whose metric is not finite cannot be compared")
    return np.array(values, np.float64)


def judge(first: np.ndarray, second: np.ndarray) -> Verdict:
    """No verdict where either side has a single seed: nobody knows then how far seeds alone are apart."""
    sides = first, second
    counts = len(first), len(second)
    means = float(first.mean()), float(second.mean())
    if min(counts) < 2:
        return Verdict(counts, means, (math.nan, math.nan), None, None, None)
    deviations = float(first.std(ddof=1)), float(second.std(ddof=1))
    error = math.sqrt(sum(side.var(ddof=1) / len(side) for side in sides))
    if error == 0:  # nothing varies: equal or not is plain
        same = means[0] == means[1]
        difference = means[1] - means[0]
        return Verdict(counts, means, deviations, 1.0 if same else 0.0, (difference, difference), 0.0)
    result: Any = stats.ttest_ind(second, first, equal_var=False)
    low, high = result.confidence_interval(1 - LEVEL)
    freedom = float(result.df)
    detectable = error * float(stats.t.ppf(1 - LEVEL / 2, freedom) + stats.t.ppf(0.8, freedom))
    return Verdict(counts, means, deviations, float(result.pvalue), (float(low), float(high)), detectable)


def lines(verdict: Verdict, names: tuple[str, str]) -> list[str]:
    said = [
        f"{name}: mean {mean:.6g}" + ("" if math.isnan(deviation) else f", deviation {deviation:.2g}")
        + f" over {count} seed{'s' * (count > 1)}"
        for name, mean, deviation, count in zip(
            names, verdict.means, verdict.deviations, verdict.counts, strict=True
        )
    ]  # fmt: skip
    if verdict.p is None or verdict.interval is None:
        return [*said, "NO VERDICT: a single seed does not say how far seeds alone are apart; run at least two of each"]
    low, high = verdict.interval
    difference = verdict.means[1] - verdict.means[0]
    said.append(f"difference {difference:+.3g}, 95 % between {low:+.3g} and {high:+.3g}; p = {verdict.p:.2g}")
    if verdict.differs:
        return [*said, "DIFFERENT: by more than seeds explain"]
    return [*said, f"NOT DIFFERENT beyond seeds; as many would show a difference of {verdict.detectable:.2g}"]

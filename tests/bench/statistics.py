"""Medians and spreads of interleaved rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of some figures."""

    median: float
    least: float
    greatest: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Raises ValueError for no values."""
        if not values:
            raise ValueError("a spread of no values")
        return Spread(median(values), min(values), max(values))

    def scaled(self, factor: float) -> Spread:
        return Spread(self.median * factor, self.least * factor, self.greatest * factor)


def step_time(rounds: Sequence[Sequence[float]]) -> Spread:
    """Seconds per step. A round counts with its median step: one slow step (a garbage collection) decides nothing."""
    return Spread.of([median(steps) for steps in rounds])


def ratio(rounds: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]]) -> Spread:
    """How many times as long as the baseline a step takes, round by round.

    Round i is compared with the baseline's round i, which ran in the same few seconds: a machine that slows down for a
    while slows both.
    """
    return Spread.of([median(ours) / median(theirs) for ours, theirs in zip(rounds, baseline, strict=True)])

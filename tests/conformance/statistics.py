"""Whether two samples come from one distribution."""

from __future__ import annotations

import numpy as np

# Kolmogorov: exceeded by two samples of one distribution once in a million times. The seeds are fixed.
SAME_DISTRIBUTION = 2.69


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> float:
    """The largest distance of the two empirical distributions, times the root of the number of values."""
    values = np.unique(np.concatenate([a.ravel(), b.ravel()]))
    below = [np.searchsorted(np.sort(x.ravel()), values, side="right") / x.size for x in (a, b)]
    return float(np.max(np.abs(below[0] - below[1])) * np.sqrt(a.size * b.size / (a.size + b.size)))

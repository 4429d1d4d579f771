"""Every tolerance of the comparison, each with its reason. No other file holds one.

The rule for all of them: two correct programs may differ no more than torch differs from itself when the order of its
summations changes, times `NOISE_FACTOR`, and never need to differ less than the floor of the quantity. How far torch is
from itself is measured in each comparison, by further torch runs in which nothing but roundings changed: see `perturb`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Perturbed runs sample the spread, they do not bound it: in 180 step checks of correct ports the drift stayed
# within 10 times the running maximum of such runs, and 15 seeded mistakes all left it by the second step.
NOISE_FACTOR = 10.0

# When a unit crosses zero, or another element becomes the maximum of its window, is chance: of four runs any may be the
# first, a third earlier than the others. The spread counts from there on.
LOOK_AHEAD = 1.5

# The spacing of float32 at 1.
ULP = 2.0**-23


@dataclass(frozen=True)
class Floor:
    """A relative difference that is never held against a rewrite, and why."""

    relative: float
    reason: str


LOSS_FIRST_STEPS = Floor(
    2e-6,
    "The first two losses come from the same, or nearly the same, weights: nothing has been amplified yet. A mean of "
    "float32 terms differs by some units in the last place (6e-8 each) between two orders of summation, not by 30.",
)
LOSS_LATER = Floor(
    1e-5,
    "From the third step on differences feed back through the weights. More than half of real scripts repeat to the "
    "last bit under another number of threads, so the measured spread may be 0 although another framework's is not.",
)
OUTPUT = Floor(
    2e-6,
    "Relative RMS of a layer's output. Contractions in float32 are 3e-7 to 4e-7 from exact on either side; a wrong "
    "epsilon in LayerNorm (1e-6 for 1e-5) shows as 4e-6.",
)
GRADIENT = Floor(
    1e-5,
    "Relative RMS of a parameter's gradient. It sums over the batch and passes the whole network, twice the depth of "
    "an output; correct ports were within 1.7 times torch's own error.",
)
UPDATE = Floor(
    1e-4,
    "Relative RMS of what one step added to a weight. Adam divides by the root of the squared gradient, which raises "
    "the relative error of small gradients; a weight decay of 0.01 left out shows as 5e-4.",
)

BUFFER = Floor(
    1e-5,
    "Relative RMS of what one step added to a buffer, such as a running variance: a mean over a batch, without the "
    "optimizer in between. Dividing by N for N - 1 shows as 1 / N of the variance: 6e-5 in a test with N = 480.",
)

# A loss is a sum of terms as large as the largest loss so far: crossing zero makes no difference significant that is
# within four units in the last place of those terms.
LOSS_ULPS = 4.0
# A gradient that is zero in exact arithmetic (a bias before BatchNorm, the key bias of attention) is rounding noise of
# terms as large as the model's other gradients.
GRADIENT_ULPS = 1.0
# A weight after a step is rounded to its own spacing, on either side, whatever the update's size.
UPDATE_ULPS = 2.0

# Where ten times torch's own spread exceeds this, a step decides nothing and is not judged: a limit of a quarter of the
# loss would pass nearly any curve that falls at all.
UNDECIDED = 0.25

# A layer that differs by this much although the model's output agrees differs in layout or in name, not in value.
LAYOUT = 0.1


@dataclass(frozen=True)
class Limit:
    """What one loss may differ by, relative to torch's; `decides` is False where torch's own spread is too large."""

    relative: float
    decides: bool = True


def spreads(losses: Sequence[float], runs: Sequence[Sequence[float]]) -> list[float]:
    """Torch's own relative spread at each step: the largest of all perturbed runs up to `LOOK_AHEAD` times the step."""
    here = [
        max(filter(math.isfinite, (_relative(run[i], loss) for run in runs if i < len(run))), default=0.0)
        for i, loss in enumerate(losses)
    ]
    return [max(here[: int(LOOK_AHEAD * step)]) for step in range(1, len(losses) + 1)]


def _relative(other: float, loss: float) -> float:
    return _ratio(abs(other - loss), abs(loss))


def loss_limits(losses: Sequence[float], runs: Sequence[Sequence[float]]) -> list[Limit]:
    """The limit of each step, from torch's losses and those of its perturbed runs."""
    limits: list[Limit] = []
    largest = 0.0
    for i, (loss, spread) in enumerate(zip(losses, spreads(losses, runs), strict=True)):
        size = abs(loss)
        if math.isfinite(size):
            largest = max(largest, size)
        floor = (LOSS_FIRST_STEPS if i < 2 else LOSS_LATER).relative
        cancelled = LOSS_ULPS * ULP * largest / size if size > 0 else math.inf
        measured = NOISE_FACTOR * spread
        limits.append(Limit(max(floor, min(cancelled, UNDECIDED), min(measured, UNDECIDED)), measured <= UNDECIDED))
    return limits


def output_limit(noise: float) -> float:
    """For a relative RMS difference of outputs; `noise` is torch's own."""
    return max(OUTPUT.relative, NOISE_FACTOR * _finite(noise))


def gradient_limit(noise: float, size: float, largest: float) -> float:
    """`size` is the RMS of this gradient, `largest` that of the model's largest."""
    return max(GRADIENT.relative, NOISE_FACTOR * _finite(noise), _ratio(GRADIENT_ULPS * ULP * largest, size))


def update_limit(noise: float, weight: float, update: float, *, learnt: bool = True) -> float:
    """`weight`, `update`: the RMS of a weight (of a buffer if not `learnt`) and of what the step added to it."""
    floor = UPDATE if learnt else BUFFER
    return max(floor.relative, NOISE_FACTOR * _finite(noise), _ratio(UPDATE_ULPS * ULP * weight, update))


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else math.inf


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0

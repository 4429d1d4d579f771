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
class Precision:
    """What two correct programs may differ by in one type. `noise`: how much of torch's spread in float32 counts.

    `negligible` is what may be left of a gradient or an update, in units of the largest one of its model.
    """

    name: str
    ulp: float
    noise: float
    loss_first: Floor
    loss_later: Floor
    output: Floor
    gradient: Floor
    update: Floor
    buffer: Floor
    negligible: float


FLOAT32 = Precision("float32", ULP, 1.0, LOSS_FIRST_STEPS, LOSS_LATER, OUTPUT, GRADIENT, UPDATE, BUFFER, negligible=ULP)

_SEMANTICS = Floor(
    1e-9,
    "Both sides in float64: correct ports agree to 3e-15 in outputs and 4e-15 in 60 losses, the weakest of sixteen "
    "seeded mistakes stood at 1.5e-5. Any figure in between would do.",
)
_SEMANTICS_GRADIENT = Floor(1e-8, "A gradient cancels more than an output; the gap to a mistake is as wide.")
_SEMANTICS_UPDATE = Floor(
    1e-7, "Adam's root raises the relative error of small gradients; a wrong weight decay or epsilon shows as 5e-4."
)
FLOAT64 = Precision(
    "float64", 2.0**-52, 2.0**-29, _SEMANTICS, _SEMANTICS, _SEMANTICS, _SEMANTICS_GRADIENT, _SEMANTICS_UPDATE,
    _SEMANTICS_GRADIENT,
    negligible=1e-9,
)  # fmt: skip
NEGLIGIBLE_UPDATE = Floor(
    1e-5,
    "In float64, relative to the model's largest update, for a weight whose gradient is zero in exact arithmetic (a "
    "bias before BatchNorm). What is left of it is noise, up to 1e-14 of sums over images; Adam divides that by no "
    "more than its epsilon of 1e-8: 3e-7 was seen. Where the noise itself is larger, so is what Adam makes of it.",
)
UNTOLD_SIGNS = 0.05  # of the elements of a weight: one of 64 was seen in ResNets; of more the cause is another
_ADAM_EPSILON = 1e-8
_NOISE_OF_BOTH = 4.0  # each side has its own noise, of either sign
_MOST_NOISE = 2.0  # two updates of Adam's of opposite signs


def negligible_update(noise: float) -> float:
    """The limit for a weight whose gradient is noise of a root mean square of `noise`, in float64: relative to the
    model's largest update, which with Adam is the learning rate."""
    return max(NEGLIGIBLE_UPDATE.relative, min(_NOISE_OF_BOTH * noise / _ADAM_EPSILON, _MOST_NOISE))


@dataclass(frozen=True)
class Factor:
    """How many times one measured figure may be another, and why."""

    times: float
    reason: str


ORACLE_RATIO = Factor(
    4.0,
    "RMS error of the rewrite over that of torch, both against float64: correct ports stood at 0.97 to 1.69, "
    "all but one of 48 seeded mistakes above 4.",
)
RATCHET = Factor(1.5, "A regression against the committed baseline; correct ports varied by less between machines.")
ORACLE_RATIO_BFLOAT16 = Factor(2.0, "In bfloat16 three runs of correct ports stood at 1.20 to 1.23.")
TINY = Factor(
    10.0, "Of at most 10 entries: the ratio for one scalar loss of a correct port was 0.35 to 10.25, by chance."
)
SMALL = Factor(8.0, "Of at most 500 entries: the RMS of few errors is a chance too, as torch's own tests allow for.")
LARGE = Factor(1.0, "Of more than 500 entries: the ratio is not stretched.")
# Half the spacing at 1: the largest relative error of one rounding.
ROUNDOFF = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
SIGNIFICANT = Floor(
    1e-6,
    "Rows of the climb in float64 whose limit is above this are gradients and updates that are zero in exact "
    "arithmetic: their relative drift is noise over noise, and not worth reporting as a worst case.",
)
NEGLIGIBLE_GRADIENT = Floor(
    1e-13,
    "A gradient that is zero in exact arithmetic is noise of the model's largest in float64, some hundred roundings.",
)
GRADIENT_CURVE = Floor(
    1e-4,
    "Relative difference of the norm of a model's gradient, at any step. The gradient passes the network twice and "
    "cancels where the loss is near its least: ten times the floor of one gradient at the first step.",
)
DISTANCE_CURVE = Floor(
    1e-4,
    "Relative difference of how far a model's weights have come: the floor of one update, which adds up no faster.",
)
MARGIN = Factor(
    6.0,
    "A flipped decision counts where the two best entries are further apart than this many times the noise of their "
    "row: no correct port flipped one, and mistakes in masks and rotary embeddings over a hundred.",
)


@dataclass(frozen=True)
class Limit:
    """What one loss may differ by, relative to torch's; `decides` is False where torch's own spread is too large."""

    relative: float
    decides: bool = True


def small(size: int) -> Factor:
    """By how much chance may stretch the ratio of a tensor of `size` entries."""
    return TINY if size <= 10 else SMALL if size <= 500 else LARGE


def spreads(losses: Sequence[float], runs: Sequence[Sequence[float]]) -> list[float]:
    """Torch's own relative spread at each step: the largest of all perturbed runs up to `LOOK_AHEAD` times the step."""
    here = [
        max(filter(math.isfinite, (_relative(run[i], loss) for run in runs if i < len(run))), default=0.0)
        for i, loss in enumerate(losses)
    ]
    return [max(here[: int(LOOK_AHEAD * step)]) for step in range(1, len(losses) + 1)]


def _relative(other: float, loss: float) -> float:
    return _ratio(abs(other - loss), abs(loss))


def loss_limits(
    losses: Sequence[float], runs: Sequence[Sequence[float]], precision: Precision = FLOAT32
) -> list[Limit]:
    """The limit of each step, from torch's losses and those of its perturbed runs."""
    limits: list[Limit] = []
    largest = 0.0
    for i, (loss, spread) in enumerate(zip(losses, spreads(losses, runs), strict=True)):
        size = abs(loss)
        if math.isfinite(size):
            largest = max(largest, size)
        floor = (precision.loss_first if i < 2 else precision.loss_later).relative
        cancelled = LOSS_ULPS * precision.ulp * largest / size if size > 0 else math.inf
        measured = NOISE_FACTOR * precision.noise * spread
        limits.append(Limit(max(floor, min(cancelled, UNDECIDED), min(measured, UNDECIDED)), measured <= UNDECIDED))
    return limits


def curve_limits(values: Sequence[float], runs: Sequence[Sequence[float]], floor: Floor) -> list[Limit]:
    """The limit of each step of a curve, from torch's values and those of its perturbed runs."""
    measured = [NOISE_FACTOR * spread for spread in spreads(values, runs)]
    return [Limit(max(floor.relative, min(limit, UNDECIDED)), limit <= UNDECIDED) for limit in measured]


def output_limit(noise: float, precision: Precision = FLOAT32) -> float:
    """For a relative RMS difference of outputs; `noise` is torch's own."""
    return max(precision.output.relative, NOISE_FACTOR * precision.noise * _finite(noise))


def gradient_limit(noise: float, size: float, largest: float, precision: Precision = FLOAT32) -> float:
    """`size` is the RMS of this gradient, `largest` that of the model's largest."""
    measured = NOISE_FACTOR * precision.noise * _finite(noise)
    return max(precision.gradient.relative, measured, _ratio(GRADIENT_ULPS * precision.negligible * largest, size))


def update_limit(
    noise: float,
    weight: float,
    update: float,
    *,
    learnt: bool = True,
    largest: float = 0.0,
    precision: Precision = FLOAT32,
) -> float:
    """`weight`, `update`: the RMS of a weight (of a buffer if not `learnt`) and of what the step added to it.

    `largest` is the RMS of the model's largest update.
    """
    floor = precision.update if learnt else precision.buffer
    measured = NOISE_FACTOR * precision.noise * _finite(noise)
    rounded = _ratio(UPDATE_ULPS * precision.ulp * weight, update)
    lost = _ratio(precision.negligible * largest, update) if precision is not FLOAT32 else 0.0
    return max(floor.relative, measured, rounded, lost)


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else math.inf


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0

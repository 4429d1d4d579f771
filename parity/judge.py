"""What the gate says of each tensor: semantics in float64, precision as a ratio to the oracle, decisions by margin.

The same function judges scripts, models, the tensors that a test hands over, and the gate's own seeded mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

import numpy as np

from parity import tolerance
from parity.measures import relative, rms

SEMANTICS, PRECISION, DECISIONS = "PARITY-SEM", "PARITY-PREC", "PARITY-DEC"
RULES = {
    SEMANTICS: "Both sides differ in float64: they do not compute the same function.",
    PRECISION: "The port is further from the float64 oracle than its budget allows.",
    DECISIONS: "The port decides otherwise where the margin is larger than the noise.",
}


@dataclass(frozen=True)
class Budget:
    """What a tensor may take. `ratio` is the port's RMS error over torch's own; `absolute` an RMS difference to torch.

    A budget that has expired no longer holds: the default is back.
    """

    subject: str = "*"
    tensor: str = "*"
    mode: str = "*"
    ratio: float | None = None
    absolute: float | None = None
    owner: str = ""
    reason: str = ""
    expires: date | None = None

    def covers(self, subject: str, tensor: str, mode: str, today: date) -> bool:
        live = self.expires is None or today <= self.expires
        patterns = ((subject, self.subject), (tensor, self.tensor), (mode, self.mode))
        return live and all(fnmatchcase(text, pattern) for text, pattern in patterns)


@dataclass(frozen=True)
class Check:
    """One tensor in one mode under one rule. `value` is held against `limit`; status: pass, fail or undecided."""

    subject: str
    mode: str
    tensor: str
    rule: str
    status: str
    value: float
    limit: float
    message: str
    owner: str = ""

    @property
    def key(self) -> str:
        return f"{self.subject}|{self.mode}|{self.tensor}|{self.rule}"


@dataclass(frozen=True)
class Tensors:
    """The same named tensors four times; `torch64` is the oracle. Without the last two only a difference is judged."""

    torch: Mapping[str, np.ndarray]
    jax: Mapping[str, np.ndarray]
    torch64: Mapping[str, np.ndarray] | None = None
    jax64: Mapping[str, np.ndarray] | None = None
    # torch layers without a counterpart: what they compute shows in the layers after them
    skipped: tuple[str, ...] = ()


def checks(
    subject: str, sides: Tensors, budgets: Sequence[Budget] = (), mode: str = "jit", today: date | None = None
) -> list[Check]:
    """Every tensor of torch, in its order. A tensor that only one side has is undecided, and so is an empty set."""
    today = today or date.today()
    names = [name for name in sides.torch if not name.startswith("initial")]
    found: list[Check] = []
    if not names:
        return [undecided(subject, mode, "(none)", "nothing was compared: no tensor was recorded")]
    for name in names:
        if name not in sides.jax:
            found.append(undecided(subject, mode, name, f"{name} has no counterpart in JAX"))
            continue
        theirs, ours = sides.torch[name], sides.jax[name]
        kind = "bfloat16" if _is_bfloat16(theirs) else "float32"
        label = mode if mode.startswith("bfloat16") else f"{kind}-{mode}"
        if theirs.shape != ours.shape:
            text = f"{name} has the shape {theirs.shape} in torch and {ours.shape} in JAX"
            found.append(undecided(subject, mode, name, text))
            continue
        found += _judged(subject, name, sides, budgets, label, today)
    more = [name for name in sides.jax if name not in sides.torch]
    return found + [undecided(subject, mode, name, f"{name} has no counterpart in torch") for name in more]


def _is_bfloat16(array: np.ndarray) -> bool:
    """Whether float32 holds nothing but bfloat16: numpy has no such type, and recordings widen it."""
    if array.dtype != np.float32 or array.size < 2 or not np.isfinite(array).all():
        return False
    return not np.any(np.ascontiguousarray(array).view(np.uint32) & 0xFFFF) and bool(np.any(array != np.round(array)))


def undecided(subject: str, mode: str, tensor: str, message: str, rule: str = SEMANTICS) -> Check:
    return Check(subject, mode, tensor, rule, "undecided", math.nan, math.nan, message)


def _judged(
    subject: str, name: str, sides: Tensors, budgets: Sequence[Budget], mode: str, today: date
) -> Iterator[Check]:
    theirs, ours = sides.torch[name], sides.jax[name]
    oracle = sides.torch64.get(name) if sides.torch64 is not None else None
    wide = sides.jax64.get(name) if sides.jax64 is not None else None
    largest = _largest(sides.torch64, name)
    if oracle is not None and wide is not None and not np.isnan(oracle).any():
        yield _semantics(subject, name, oracle, wide, largest, budgets, today)
    budget = _budget(budgets, subject, name, mode, today)
    if np.isnan(theirs).any():
        yield undecided(subject, mode, name, f"{name} is NaN in torch: nothing can be held against it", PRECISION)
        return
    if budget is not None and budget.absolute is not None:
        value = rms(_difference(ours, theirs))
        text = f"RMS difference {value:.2e}, budget {budget.absolute:.1e}"
        yield _check(subject, mode, name, PRECISION, value, budget.absolute, text, budget)
    elif oracle is not None and oracle.shape == theirs.shape:
        limit = budget.ratio if budget is not None and budget.ratio is not None else default_ratio(mode)
        value, own = ratio(theirs, ours, oracle, mode, largest if name.startswith("gradient") else 0.0)
        limit *= tolerance.small(theirs.size).times
        text = f"error {value:.2f} times torch's own ({own:.1e}), budget {limit:.1f}"
        yield _check(subject, mode, name, PRECISION, value, limit, text, budget)
        if theirs.ndim >= 2 and theirs.shape[-1] > 1 and (name == "logits" or name.startswith("output of the model")):
            yield _decisions(subject, mode, name, theirs, ours, oracle)
    else:
        text = f"{name} has no float64 oracle; give it an absolute budget"
        yield undecided(subject, mode, name, text, PRECISION)


def _semantics(
    subject: str,
    name: str,
    oracle: np.ndarray,
    wide: np.ndarray,
    largest: float,
    budgets: Sequence[Budget],
    today: date,
) -> Check:
    value = relative(oracle, wide) if oracle.shape == wide.shape else math.inf
    precision = tolerance.FLOAT64
    floor = precision.gradient if name.startswith("gradient") else precision.update if " after " in name else None
    limit = (floor or precision.output).relative
    size = rms(oracle)
    if size > 0 and name.startswith("gradient"):  # zero in exact arithmetic: noise of the model's largest gradient
        limit = max(limit, tolerance.NEGLIGIBLE_GRADIENT.relative * largest / size)
    budget = _budget(budgets, subject, name, "float64", today)
    if budget is not None and budget.absolute is not None:
        value, limit = rms(wide - oracle), budget.absolute
    text = f"float64: relative difference {value:.1e}, limit {limit:.1e}"
    return _check(subject, "float64", name, SEMANTICS, value, limit, text, budget)


def _largest(tensors: Mapping[str, np.ndarray] | None, name: str) -> float:
    kind = name.partition(" of ")[0]
    return max((rms(value) for key, value in (tensors or {}).items() if key.partition(" of ")[0] == kind), default=0.0)


def ratio(
    theirs: np.ndarray, ours: np.ndarray, oracle: np.ndarray, mode: str, largest: float = 0.0
) -> tuple[float, float]:
    """The port's RMS error over torch's own; and torch's own.

    Which counts as at least a quarter of a rounding, of the tensor or of what is `largest` among its kind: a gradient
    that is zero in exact arithmetic is the noise of larger ones.
    """
    unit = tolerance.ROUNDOFF["bfloat16" if mode.startswith("bfloat16") else "float32"]
    finite = np.isfinite(oracle)
    own = max(rms(_difference(theirs, oracle)), unit * max(rms(oracle[finite]), largest) / 4)
    error = rms(_difference(ours, oracle))
    if own == 0:
        return (0.0 if error == 0 else math.inf), own
    return (error / own if math.isfinite(error) else math.inf), own


def _difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """0 where both are the same infinity: a mask."""
    with np.errstate(invalid="ignore"):
        return np.where(one == other, 0.0, one.astype(np.float64) - other)


def default_ratio(mode: str) -> float:
    factor = tolerance.ORACLE_RATIO_BFLOAT16 if mode.startswith("bfloat16") else tolerance.ORACLE_RATIO
    return factor.times


def _decisions(subject: str, mode: str, name: str, theirs: np.ndarray, ours: np.ndarray, oracle: np.ndarray) -> Check:
    from parity.answers import flipped

    rows, flips, beyond = flipped(theirs, ours, oracle)
    text = f"{rows - flips} of {rows} rows choose the same largest entry, {beyond} flips beyond the noise"
    return _check(subject, mode, name, DECISIONS, float(beyond), 0.0, text, None)


def _budget(budgets: Sequence[Budget], subject: str, tensor: str, mode: str, today: date) -> Budget | None:
    """The last one that covers a tensor."""
    return next((b for b in reversed(budgets) if b.covers(subject, tensor, mode, today)), None)


def _check(
    subject: str, mode: str, name: str, rule: str, value: float, limit: float, text: str, budget: Budget | None
) -> Check:
    status = "pass" if value <= limit else "fail"  # a NaN fails
    return Check(subject, mode, name, rule, status, value, limit, f"{name}: {text}", budget.owner if budget else "")

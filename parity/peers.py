"""`make bench-gates`: the thresholds that other projects publish, on the tensors of the self-test, beside this gate.

Their numbers, not runs of their tools. Each is applied in float32, once to the logits, as their documentation does, and
once to every tensor of the self-test: logits, loss, gradients, weights after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from parity import selftest
from parity.selftest import Tried

Tensors = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Gate:
    """`passes(torch, jax)` for one tensor; `source`: where the threshold is published."""

    name: str
    source: str
    passes: Callable[[np.ndarray, np.ndarray], bool]
    logits_only: bool = False


def _close(rtol: float, atol: float) -> Callable[[np.ndarray, np.ndarray], bool]:
    return lambda theirs, ours: bool(np.allclose(ours, theirs, rtol=rtol, atol=atol))


def _means(rtol: float, atol: float) -> Callable[[np.ndarray, np.ndarray], bool]:
    return lambda theirs, ours: bool(np.isclose(ours.mean(), theirs.mean(), rtol=rtol, atol=atol))


def _largest(limit: float) -> Callable[[np.ndarray, np.ndarray], bool]:
    return lambda theirs, ours: bool(np.abs(ours - theirs).max() <= limit)


def _cosine(limit: float) -> Callable[[np.ndarray, np.ndarray], bool]:
    def passes(theirs: np.ndarray, ours: np.ndarray) -> bool:
        size = np.linalg.norm(theirs) * np.linalg.norm(ours)
        return size == 0 or bool(np.vdot(theirs, ours) / size > limit)

    return passes


def _divergence(limit: float) -> Callable[[np.ndarray, np.ndarray], bool]:
    def log_softmax(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.float64) - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    def passes(theirs: np.ndarray, ours: np.ndarray) -> bool:
        one, other = log_softmax(theirs), log_softmax(ours)
        return bool((np.exp(one) * (one - other)).sum(-1).max() < limit)

    return passes


PEERS = (
    Gate("PaDiff, means, rtol 1e-7", "PaDiff: the defaults of auto_diff", _means(1e-7, 0.0)),
    Gate("PaDiff, README, means, atol 1e-4", "PaDiff: README", _means(0.0, 1e-4)),
    Gate("Hugging Face, Flax to torch, 4e-2", "transformers: test_modeling_flax_common.py", _largest(4e-2)),
    Gate("Hugging Face, torch to Flax, 1e-4", "transformers: test_modeling_common.py", _largest(1e-4)),
    Gate("torch.testing.assert_close", "torch: rtol 1.3e-6, atol 1e-5 for float32", _close(1.3e-6, 1e-5)),
    Gate("chex.assert_trees_all_close", "chex: rtol 1e-6, atol 0", _close(1e-6, 0.0)),
    Gate("numpy.allclose", "numpy: rtol 1e-5, atol 1e-8", _close(1e-5, 1e-8)),
    Gate("Polygraphy", "Polygraphy: rtol 1e-5, atol 1e-5", _close(1e-5, 1e-5)),
    Gate("MaxText, KL below 0.015", "MaxText: forward_pass_logit_checker.py", _divergence(0.015), logits_only=True),
    Gate("cosine above 0.99", "msprobe", _cosine(0.99)),
)


@dataclass(frozen=True)
class Score:
    gate: str
    caught: int | None
    alarms: int | None
    caught_everywhere: int | None = None
    alarms_everywhere: int | None = None


def scores(tried: list[Tried]) -> list[Score]:
    """How many mistakes each gate notices, and how many correct ports it refuses."""
    found = [_score(gate, tried) for gate in PEERS]
    caught = sum(bool(one.findings) and not one.correct for one in tried)
    alarms = sum(bool(one.findings) and one.correct for one in tried)
    return [*found, Score("migrate gate", None, None, caught, alarms)]


def _score(gate: Gate, tried: list[Tried]) -> Score:
    logits = [one for one in tried if not gate.passes(one.theirs["logits"], one.ours["logits"])]
    anywhere = [one for one in tried if not all(gate.passes(one.theirs[name], one.ours[name]) for name in one.names)]
    first = [sum(one.correct is wanted for one in logits) for wanted in (False, True)]
    if gate.logits_only:
        return Score(gate.name, *first)
    return Score(gate.name, *first, *(sum(one.correct is wanted for one in anywhere) for wanted in (False, True)))


def main() -> None:
    tried = list(selftest.run(float32=True))
    mistakes, correct = (sum(one.correct is wanted for one in tried) for wanted in (False, True))
    table = Table("gate", title=f"{mistakes} mistakes and {correct} correct ports", box=None, header_style="bold")
    for name in ("caught by the logits", "refused", "caught by all tensors", "refused"):
        table.add_column(name, justify="right")
    for score in scores(tried):
        figures = (score.caught, score.alarms, score.caught_everywhere, score.alarms_everywhere)
        table.add_row(score.gate, *("" if figure is None else str(figure) for figure in figures))
    console = Console(width=120)
    console.print(table)
    console.print("Thresholds as published, applied here; these are not runs of the other tools:")
    for gate in PEERS:
        console.print(f"  {gate.name}: {gate.source}", highlight=False)


if __name__ == "__main__":
    main()

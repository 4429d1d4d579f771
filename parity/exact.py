"""The first step of both sides against the rewrite's own program in high precision: mpmath's numbers, or balls.

The oracle is of the program: its literals are what float32 made of them, its inputs what the script read. Both sides
computed from the same, so what is left is rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from parity import judge
from parity.answers import Answer
from parity.judge import Check, Tensors
from parity.ladder import Sides, Verdict
from parity.measures import relative
from parity.record import Recording
from parity.tensors import tensors

ORACLES = ("mpmath", "flint")


@dataclass(frozen=True)
class ExactRow:
    """One kind of tensor: how many were held, and of the one closest to its limit the relative errors of both sides,
    how many times torch's error JAX's is, and the limit of that."""

    kind: str
    held: int
    torch: float
    jax: float
    ratio: float
    limit: float
    tensor: str


@dataclass(frozen=True)
class Exact:
    """What the oracle found, or (`undecided`) why it found nothing. `failed`: the messages of what is beyond."""

    oracle: str
    rows: tuple[ExactRow, ...] = ()
    failed: tuple[str, ...] = ()
    undecided: str = ""

    @property
    def answer(self) -> Answer:
        """The verdict on precision."""
        if self.undecided:
            return Answer("precision", Verdict.NOT_COMPARED, f"not decided by {self.oracle}: {self.undecided}")
        if self.failed:
            return Answer("precision", Verdict.DIFFERS, f"float32, against {self.oracle}: {self.failed[0]}")
        worst = max(self.rows, key=lambda row: row.ratio / row.limit)
        text = f"float32: at most {worst.ratio:.2g} times torch's own error, against {self.oracle}"
        return Answer("precision", Verdict.EQUAL, f"{text} (limit {worst.limit:.0f})")


def measured(sides: Sides, oracle: Recording) -> Exact:
    """Outputs, loss and gradients of the first step of both sides; `oracle` is what the program gives exactly."""
    said = "; ".join(oracle.notes)
    found = tensors(sides, None)
    exact = tensors(replace(sides, jax=oracle), None).jax
    held = [name for name in found.torch if name in found.jax and name in exact]
    if not held:
        return Exact(said, undecided="nothing of the first step has the same name on both sides")
    theirs, ours, reference = ({name: side[name] for name in held} for side in (found.torch, found.jax, exact))
    of_step = Tensors(theirs, ours, reference)
    checks = judge.checks("", of_step)
    return Exact(
        said,
        tuple(_rows([check for check in checks if check.rule == judge.PRECISION], of_step)),
        tuple(check.message for check in checks if check.status == "fail"),
    )


def _rows(checks: Sequence[Check], found: Tensors) -> Iterator[ExactRow]:
    for kind in dict.fromkeys(_kind(check.tensor) for check in checks):
        held = [check for check in checks if _kind(check.tensor) == kind and check.status != "undecided"]
        worst = max(held, key=lambda check: check.value / check.limit, default=None)
        if worst is not None and found.torch64 is not None:
            name, exact = worst.tensor, found.torch64[worst.tensor]
            errors = relative(exact, found.torch[name]), relative(exact, found.jax[name])
            yield ExactRow(kind, len(held), *errors, worst.value, worst.limit, name)


def _kind(tensor: str) -> str:
    """ "outputs" of "output of Net.fc", "gradients" of "gradient of Net.fc.weight", "loss" of "loss 1"."""
    first = tensor.partition(" ")[0]
    return first if first == "loss" else f"{first}s"

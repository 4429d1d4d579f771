"""How far each rule agrees with torch on torch's own samples of arguments: measured, and kept in `agreement.json`.

`python -m tests.conformance.opinfo` measures. A sample agrees in values, gradients, shapes and types; or it is refused
by a code when the call is rewritten; or JAX raises an error when it runs; or it differs, for the reason stated here.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from migrate.rules.rule import Rule

FILE = Path(__file__).with_name("agreement.json")

# Why some samples of an API differ and are not refused: the source does not show what decides it.
_TIES = "Among equal elements torch and JAX take different ones, as either may."
_INTEGERS = "Of integers torch gives integers, JAX floats."
DIFFERS: dict[str, str] = {
    "operator __rpow__": "Negative exponents of integers: 0 in JAX, of undefined value in torch.",
    "torch.argsort": _TIES,
    "torch.baddbmm": "Of integers torch cuts off the decimals of alpha and beta.",
    "torch.cholesky_solve": "The gradient by the triangle of the factor that is not read: torch gives one, JAX none.",
    "torch.heaviside": _INTEGERS,
    "torch.kthvalue": _TIES,
    "torch.linalg.eigh": "The gradient by a matrix that is not symmetric.",
    "torch.linalg.norm": "The gradient at zero of a norm that has none there: 0 in torch, NaN in JAX.",
    "torch.masked_fill": "A number other than 0 and 1 put among booleans.",
    "torch.nn.functional.hardsigmoid": "One part in 10 million: torch's constant 1/6 is rounded.",
    "torch.nn.functional.hardtanh": _INTEGERS,
    "torch.nn.functional.hinge_embedding_loss": "Targets that are neither 1 nor -1.",
    "torch.nn.functional.local_response_norm": "Integers, which torch rounds on the way.",
    "torch.nn.functional.normalize": "A gradient that is zero but for rounding.",
    "torch.nn.functional.relu6": _INTEGERS,
    "torch.sort": _TIES,
    "torch.special.digamma": "At the poles and near them.",
    "torch.special.i0": "JAX's approximation is less exact in float64.",
    "torch.topk": _TIES,
}


@dataclass(frozen=True)
class Agreement:
    """How many of torch's samples of one API end in which way."""

    agrees: int = 0
    refused: int = 0
    raises: int = 0
    differs: int = 0

    @property
    def samples(self) -> int:
        """All that were tried."""
        return self.agrees + self.refused + self.raises + self.differs

    def __str__(self) -> str:
        others = {
            "are refused by code": self.refused,
            "raise an error in JAX": self.raises,
            "differ": self.differs,
        }
        rest = "".join(f", {count} {what}" for what, count in others.items() if count)
        return f"Of {self.samples} samples of torch's own arguments {self.agrees} agree{rest}."

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.agrees + other.agrees,
            self.refused + other.refused,
            self.raises + other.raises,
            self.differs + other.differs,
        )


@functools.cache
def measured() -> dict[str, Agreement]:
    """What was measured, by the name of the API; those without a sample that is a call in source text are left out."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Agreement(*counts) for name, counts in found["apis"].items() if any(counts)}


def of(rule: Rule) -> str | None:
    """What was measured of a rule, with the reason for what differs; None where torch has no samples."""
    name = next((name for name in rule.names if name in measured()), None)
    if name is None:
        return None
    reason = f" {DIFFERS[name]}" if name in DIFFERS else ""
    return f"{measured()[name]}{reason}"


def total() -> Agreement:
    """All that was measured."""
    return sum(measured().values(), Agreement())

"""How far each rule agrees with torch on torch's own samples of arguments: measured, and kept in `agreement.json`.

`python -m tests.conformance.opinfo` measures. A sample whose tensors the source makes agrees in values, gradients,
shapes and types, or a code refuses it when the call is rewritten; those few of which JAX raises an error as it traces
have their reason here. Each is measured again where the source shows nothing of its tensors: JAX may raise an error as
it traces then, but none differs in silence.
"""

from __future__ import annotations

import functools
import json
from dataclasses import astuple, dataclass
from pathlib import Path

from migrate.rules.rule import Rule

FILE = Path(__file__).with_name("agreement.json")

# Why JAX raises an error as it traces some samples of an API: lengths decide it, which no source shows.
RAISES: dict[str, str] = {
    "torch.linalg.det": "The gradient by matrices without elements.",
    "torch.linalg.svd": "The gradient by both full matrices, of matrices without elements.",
    "torch.tensordot": "Of axes of which one has the length 1 and the other another.",
}


@dataclass(frozen=True)
class Agreement:
    """How many of torch's samples of one API end in which way, where the source shows the type and the axes of their
    tensors; and of how many of them JAX raises an error where it does not."""

    agrees: int = 0
    refused: int = 0
    raises: int = 0
    differs: int = 0
    unshown: int = 0

    @property
    def samples(self) -> int:
        """All that were tried."""
        return self.agrees + self.refused + self.raises + self.differs

    def __str__(self) -> str:
        others = {"are refused by code": self.refused, "raise an error in JAX": self.raises, "differ": self.differs}
        rest = "".join(f", {count} {what}" for what, count in others.items() if count)
        said = f"Of {self.samples} samples of torch's own arguments {self.agrees} agree{rest}."
        if not self.unshown:
            return said
        return f"{said} Of {self.unshown} JAX raises an error where the source does not show type and axes."

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))


@functools.cache
def measured() -> dict[str, Agreement]:
    """What was measured, by the name of the API; those without a sample that is a call in source text are left out."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Agreement(*counts) for name, counts in found["apis"].items() if any(counts)}


def of(rule: Rule) -> str | None:
    """What was measured of a rule, with the reason for errors; None where torch has no samples."""
    name = next((name for name in rule.names if name in measured()), None)
    if name is None:
        return None
    found = measured()[name]
    raises = f" An error: {RAISES[name][0].lower()}{RAISES[name][1:]}" if found.raises and name in RAISES else ""
    return f"{found}{raises}"


def total() -> Agreement:
    """All that was measured."""
    return sum(measured().values(), Agreement())

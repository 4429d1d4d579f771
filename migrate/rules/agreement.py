"""How far each rule agrees with torch on torch's own samples of arguments: measured, and kept in `agreement.json`.

`python -m tests.conformance.opinfo` measures. A sample agrees in values, gradients, shapes and types; or it is refused
by a code when the call is rewritten; or JAX raises an error as it traces; or it differs, for the reason stated here. Of
the errors those are counted apart that come from the type or the axes of a tensor alone: where the source shows them,
the call is refused or agrees.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from migrate.rules.rule import Rule

FILE = Path(__file__).with_name("agreement.json")

# Why some samples of an API differ and are not refused: the source does not show what decides it.
DIFFERS: dict[str, str] = {
    "operator __rpow__": "Of integers with negative exponents, of which torch makes 0; and powers beyond 32 bits.",
    "torch.nn.functional.local_response_norm": "Of integers without elements, which torch gives back as they are.",
    "torch.nn.functional.relu6": "Of integers, where the source does not show that they are: they become floats.",
}

# Why JAX raises an error as it traces some samples of an API, of which the source may show type and axes: what decides
# it are lengths and values.
_EMPTY = "Of matrices without elements."
RAISES: dict[str, str] = {
    "torch.chunk": "Of a length that the number of parts does not divide.",
    "torch.linalg.det": _EMPTY,
    "torch.linalg.svd": "The gradient by both full matrices.",
    "torch.logdet": _EMPTY,
    "torch.squeeze": "Of an axis that is longer than 1, which torch leaves as it is.",
    "torch.tensordot": "Of axes of which one has the length 1 and the other another.",
}


@dataclass(frozen=True)
class Agreement:
    """How many of torch's samples of one API end in which way."""

    agrees: int = 0
    refused: int = 0
    loud: int = 0
    raises: int = 0
    differs: int = 0

    @property
    def samples(self) -> int:
        """All that were tried."""
        return self.agrees + self.refused + self.loud + self.raises + self.differs

    def __str__(self) -> str:
        others = {
            "are refused by code": self.refused,
            "are refused or agree where the source shows type and axes, else raise an error in JAX": self.loud,
            "raise an error in JAX": self.raises,
            "differ": self.differs,
        }
        rest = "".join(f", {count} {what}" for what, count in others.items() if count)
        return f"Of {self.samples} samples of torch's own arguments {self.agrees} agree{rest}."

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.agrees + other.agrees,
            self.refused + other.refused,
            self.loud + other.loud,
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
    found = measured()[name]
    differs = f" {DIFFERS[name]}" if name in DIFFERS else ""
    raises = f" An error: {RAISES[name][0].lower()}{RAISES[name][1:]}" if found.raises and name in RAISES else ""
    return f"{found}{differs}{raises}"


def total() -> Agreement:
    """All that was measured."""
    return sum(measured().values(), Agreement())

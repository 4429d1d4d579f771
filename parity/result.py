"""What a comparison found, and how its exit code follows."""

from __future__ import annotations

from dataclasses import dataclass, field

from parity.answers import Answer, Ladder
from parity.curves import Curve
from parity.divergence import Origin
from parity.exact import Exact
from parity.judge import Tensors
from parity.ladder import Rung, StepRow
from parity.modes import ModeRow


@dataclass(frozen=True)
class ParityResult:
    """What a comparison found. `exit_code`: 0 equal, 1 differs, 2 could not run (then `errors` says why)."""

    script: str
    rewritten: str
    passed: bool
    exit_code: int
    steps: tuple[StepRow, ...] = ()
    rungs: tuple[Rung, ...] = ()
    first_difference: str | None = None
    code: str | None = None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    requested_steps: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    verdicts: tuple[Answer, ...] = ()
    # every tensor by name, where they were asked for: by execution mode of the JAX side
    tensors: dict[str, Tensors] = field(default_factory=dict)
    float64: Ladder | None = None
    # where the first layer that differs does so, if it was asked for
    origin: Origin | None = None
    # gradient norms and distances of weights, whole training long
    curves: tuple[Curve, ...] = ()
    # whether there were enough perturbed runs to judge them
    envelope: bool = False
    # what `modes.with_modes` says of each mode of execution
    modes: tuple[ModeRow, ...] = ()
    # the first step against an oracle of high precision, if it was asked for
    exact: Exact | None = None

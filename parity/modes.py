"""A comparison in several modes of execution: a result that changes with one of them is a finding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from parity import judge

if TYPE_CHECKING:
    from parity.judge import Check, Tensors
    from parity.result import ParityResult


@dataclass(frozen=True)
class Mode:
    """How a comparison is executed. `environment`: of the JAX side. On both sides, `products` is how accelerators round
    the operands of float32 products ("": as the CPU has them), and `dtype` takes the place of float32."""

    environment: Mapping[str, str] = field(default_factory=dict)
    products: str = ""
    dtype: str = "float32"

    @property
    def numbers(self) -> str:
        """What distinguishes the torch run of one mode from that of another; "" as the script runs by itself."""
        return f"{self.products}-products" if self.products else "" if self.dtype == "float32" else self.dtype


_EXECUTIONS = {
    "jit": Mode(),
    "eager": Mode({"JAX_DISABLE_JIT": "1"}),
    "no-excess-precision": Mode({"XLA_FLAGS": "--xla_allow_excess_precision=false"}),
}
_NUMBERS = {"tpu": Mode(products="bfloat16"), "tf32": Mode(products="tf32"), "bfloat16": Mode(dtype="bfloat16")}

MODES = {
    **_EXECUTIONS,
    **_NUMBERS,
    **{
        f"{numbers}-{way}": replace(kind, environment=execution.environment)
        for numbers, kind in _NUMBERS.items()
        for way, execution in _EXECUTIONS.items()
        if way != "jit"
    },
}
# `--mode all`: what excess precision and jit change, they change where numbers are rounded often
ALL = (*_EXECUTIONS, *_NUMBERS, "bfloat16-eager", "bfloat16-no-excess-precision")


@dataclass(frozen=True)
class ModeRow:
    """One mode: how many figures were held against their budgets, the one closest to its own or furthest beyond it,
    and the messages of what is beyond or could not be decided."""

    mode: str
    held: int
    worst: float
    limit: float
    tensor: str
    failed: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return bool(self.failed)


def with_modes(result: ParityResult) -> ParityResult:
    """The result with a row for each mode whose tensors it has. Where all else agrees, a mode that differs is its
    first difference (PAR111)."""
    rows = tuple(_row(mode, tensors) for mode, tensors in result.tensors.items())
    result = replace(result, modes=rows)
    beyond = next((row for row in rows if row.differs), None)
    if beyond is None or result.exit_code:
        return result
    first = f"PAR111: in the mode {beyond.mode}: {beyond.failed[0]}"
    return replace(result, passed=False, exit_code=1, code="PAR111", first_difference=first)


def _row(mode: str, tensors: Tensors) -> ModeRow:
    """Semantics is left out: float64 is run once, whatever the modes."""
    checks = [check for check in judge.checks("", tensors, mode=mode) if check.rule != judge.SEMANTICS]
    held = [check for check in checks if check.rule == judge.PRECISION and check.status != "undecided"]
    worst = max(held, key=_share, default=None)
    failed = tuple(check.message for check in checks if check.status != "pass")
    value, limit = (worst.value, worst.limit) if worst else (math.nan, math.nan)
    return ModeRow(mode, len(held), value, limit, worst.tensor if worst else "", failed)


def _share(check: Check) -> float:
    return check.value / check.limit if check.limit else math.inf

"""The hazards together: what was seen here, whether a program has it, what to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parity.codes import ParityError
from parity.hazards.lint import LOOKED_FOR, looked_at
from parity.processes import running

SCHEMA = 1
TIMEOUT = 600.0

ADVICE = {
    "dropped token": "Compare what was rounded alike: take the threshold and the scores from one array after "
    "lax.reduce_precision or lax.optimization_barrier, or compile with xla_allow_excess_precision=False.",
    "excess precision": "A result in bfloat16 may be kept in float32 inside a fused loop. Test with "
    "jax.jit(f, compiler_options={'xla_allow_excess_precision': False}) as well.",
    "approximate top-k": "Exact on the CPU: measure the recall on the device, or use lax.top_k.",
    "matmul precision": "TPUs multiply float32 as bfloat16, recent GPUs as TF32, unless told otherwise: "
    "jax.default_matmul_precision('highest'). `migrate parity --d 4096 --emulate tpu` shows what it costs.",
    "batch invariance": "A row's result depends on what it is batched with. Compare like batches; sample on logits "
    "with a margin.",
    "padded batch": "Padding a batch may change the rounding of its real rows: compare with a tolerance.",
    "gradients at ties": "At ties each framework picks another subgradient. They matter where values are equal by "
    "construction: zeros, padding, clipped weights.",
    "gradient of an unused branch": "Make the branch safe before it is computed: "
    "jnp.sqrt(jnp.where(x > 0, x, 1.0)) inside the where.",
    "GELU's default": "torch's F.gelu is exact: nn.gelu(x, approximate=False).",
    "default epsilons": "Write the epsilon: nn.LayerNorm(epsilon=1e-5).",
    "fast variance": "Flax's norms take mean(x²) - mean(x)². Where the mean may be larger than the spread: "
    "nn.LayerNorm(use_fast_variance=False).",
    "SAME padding": "Write torch's padding: padding=((1, 1), (1, 1)).",
    "schedules in float32": "Harmless in float32. To compare in float64 compute the schedule on the host.",
    "gradient clipping": "Harmless but visible in float64: scale by max_norm / (norm + 1e-6) to be torch's.",
    "denormals": "Numbers below 1.2e-38 are zero on XLA's CPU: logarithms and reciprocals of them differ.",
    "non-finite losses": "jax.config.update('jax_debug_nans', True) stops at the first NaN; "
    "optax.apply_if_finite skips the step.",
}


@dataclass(frozen=True)
class Hazard:
    """`present`: it shows on this machine. `lines`: where the program does it; None where no source was looked at or
    it cannot be seen in one."""

    name: str
    present: bool
    seen: str
    advice: str
    lines: list[tuple[int, str]] | None


def found(source: Path | None = None) -> tuple[list[Hazard], dict[str, str]]:
    """Every hazard, and the versions and device that it was tried on. Raises ParityError."""
    lines = None
    if source is not None:
        try:
            lines = looked_at(source.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise ParityError("PAR211", f"{source} cannot be read: {error}") from None
    probed = _probed()
    hazards = [
        Hazard(name, present, seen, ADVICE[name], lines[name] if lines is not None and name in LOOKED_FOR else None)
        for name, (present, seen) in probed["found"].items()
    ]
    return hazards, probed["versions"]


def _probed() -> dict:
    with running({"the probes": ["parity.hazards.probes"]}) as children:
        return json.loads(children[0].output(TIMEOUT).splitlines()[-1])


def render(hazards: list[Hazard], versions: dict[str, str], source: Path | None, console: Console) -> None:
    where = ", ".join(f"{name} {version}" for name, version in versions.items())
    table = Table(title=f"hazards: {where}", title_justify="left", show_lines=True)
    for heading in ("hazard", "seen here", *([str(source)] if source else []), "what to do"):
        table.add_column(heading, overflow="fold")
    for hazard in hazards:
        name = f"[bold]{hazard.name}[/]" if hazard.present else f"{hazard.name} (not here)"
        row = [name, escape(hazard.seen)]
        if source:
            row.append(_places(hazard.lines))
        table.add_row(*row, escape(hazard.advice))
    console.print(table)


def _places(lines: list[tuple[int, str]] | None) -> str:
    if lines is None:
        return "cannot be seen in a source"
    if not lines:
        return "no"
    shown = [f"line {number}: {escape(text)}" for number, text in lines[:5]]
    return "\n".join(shown + ([f"and {len(lines) - 5} more"] if len(lines) > 5 else []))


def to_json(hazards: list[Hazard], versions: dict[str, str]) -> str:
    found = [asdict(hazard) for hazard in hazards]
    return json.dumps({"schema": SCHEMA, "versions": versions, "hazards": found}, indent=1) + "\n"

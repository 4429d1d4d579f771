"""`migrate gate`: every subject of a configuration held against its budgets.

Exit code 0: all within. 1: a budget is exceeded. 2: something could not be decided (nothing compared, a name without
counterpart, a missing file, a process that failed or never ended): never a pass.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from migrate import __version__, rewriting
from migrate.diagnostics import Fatal
from migrate.files.source import write_whole
from parity import judge, tolerance, workdir
from parity.codes import ParityError
from parity.compare import compare_script
from parity.gate_config import GateConfig, GateSubject
from parity.judge import Check
from parity.result import ParityResult
from parity.subject import compare_model

SCHEMA_VERSION = 1
STEPS = 8  # of a script, where its subject does not say


@dataclass(frozen=True)
class Place:
    """A line of the user's code."""

    file: str
    line: int
    text: str = ""


@dataclass(frozen=True)
class Judged:
    """One subject: what was said of each tensor, and where the first one that failed is written."""

    name: str
    checks: tuple[Check, ...]
    result: ParityResult
    inputs: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    torch_place: Place | None = None
    jax_place: Place | None = None

    @property
    def first(self) -> Check | None:
        """The first tensor that failed: semantics before precision, each in the order of execution."""
        failed = [check for check in self.checks if check.status != "pass"]
        decided = [check for check in failed if check.status == "fail"]
        return next((c for rule in judge.RULES for c in decided or failed if c.rule == rule), None)

    @property
    def origin(self) -> str:
        return str(self.result.origin) if self.result.origin else ""

    @property
    def status(self) -> str:
        found = {check.status for check in self.checks}
        return "fail" if "fail" in found else "undecided" if "undecided" in found else "pass"

    @property
    def notes(self) -> list[str]:
        skipped = dict.fromkeys(name for tensors in self.result.tensors.values() for name in tensors.skipped)
        said = f"no counterpart, seen in what follows them: {', '.join(skipped)}" if skipped else ""
        return [*self.result.notes, *filter(None, [said])]

    @property
    def certificates(self) -> list[dict[str, Any]]:
        """What vouches for the oracle: torch in float64, as far as JAX in float64 agrees with it."""
        agreed = [check for check in self.checks if check.rule == judge.SEMANTICS and math.isfinite(check.value)]
        if not agreed:
            return []
        worst = max(agreed, key=lambda check: check.value / check.limit)
        figures = {"agreement": worst.value, "limit": worst.limit, "worst_tensor": worst.tensor}
        return [{"oracle": "torch in float64", "checked_by": "JAX in float64", "tensors": len(agreed), **figures}]


@dataclass(frozen=True)
class GateResult:
    judged: tuple[Judged, ...] = ()
    errors: tuple[str, ...] = ()
    seconds: float = 0.0
    config: str = ""
    notes: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def checks(self) -> list[Check]:
        return [check for subject in self.judged for check in subject.checks]

    @property
    def exit_code(self) -> int:
        """What is beyond its budget is so, whatever else could not be decided."""
        if any(check.status == "fail" for check in self.checks):
            return 1
        return 2 if self.errors or not self.checks or any(c.status == "undecided" for c in self.checks) else 0

    @property
    def worst(self) -> list[Check]:
        """Figures that are held against a budget, the one furthest beyond or closest to it first."""
        held = [c for c in self.checks if c.rule == judge.PRECISION and c.limit > 0 and not math.isnan(c.value)]
        return sorted(held, key=lambda check: -check.value / check.limit)

    @property
    def headline(self) -> str:
        counts = {status: sum(c.status == status for c in self.checks) for status in ("pass", "fail", "undecided")}
        verdict = ("PASS", "FAIL", "NOT DECIDED")[self.exit_code]
        return f"{verdict}: {counts['pass']} within budget, {counts['fail']} beyond, {counts['undecided']} not decided"


def run(config: GateConfig) -> GateResult:
    """Judge every subject, whatever becomes of the ones before it."""
    started = time.monotonic()
    judged = [_judged(subject, config) for subject in config.subjects]
    errors: list[str] = []
    if config.ratchet is not None:
        try:
            baseline = _baseline(config.ratchet)
            judged = [_ratcheted(subject, baseline) for subject in judged]
        except ParityError as error:
            errors.append(str(error))
    errors += _idle(config, judged)
    judged = [_placed(subject, source) for subject, source in zip(judged, config.subjects, strict=True)]
    seconds = time.monotonic() - started
    return GateResult(tuple(judged), tuple(errors), seconds, config.path, tuple(_notes(config)), environment())


def _notes(config: GateConfig) -> list[str]:
    today = date.today()
    return [
        f"the budget of {budget.owner} for {budget.subject} {budget.tensor} expired on {budget.expires}: "
        "the default is back"
        for budget in config.budgets
        if budget.expires is not None and budget.expires < today
    ]


def _idle(config: GateConfig, judged: list[Judged]) -> list[str]:
    """Budgets that cover nothing: a pattern that matches no name holds nothing to what it says."""
    seen = [(check.subject, check.tensor, check.mode) for subject in judged for check in subject.checks]
    subjects = {name for name, _, _ in seen}
    today = date.today()
    return [
        f"PAR214: {config.path}: the budget of {budget.owner} for {budget.subject} {budget.tensor} {budget.mode} "
        "covers no tensor that was compared"
        for budget in config.budgets
        if (budget.expires is None or today <= budget.expires)
        and any(fnmatchcase(name, budget.subject) for name in subjects)
        and not any(budget.covers(*place, today) for place in seen)
    ]


def _judged(subject: GateSubject, config: GateConfig) -> Judged:
    result = _compared(subject, config)
    checks: list[Check] = []
    for mode, tensors in result.tensors.items():
        found = judge.checks(subject.name, tensors, config.budgets, mode)
        seen = {check.key for check in checks}  # float64 is run once, whatever the modes
        checks += [check for check in found if check.key not in seen]
    if stale := _stale(subject):
        checks.append(judge.undecided(subject.name, "source", "(stale)", stale))
    if result.float64 is not None and result.float64.undecided:
        checks.append(judge.undecided(subject.name, "float64", "(all)", result.float64.undecided))
    for error in result.errors:
        status = "fail" if result.exit_code == 1 else "undecided"
        text = Check(subject.name, "float32", "(run)", judge.SEMANTICS, status, float("nan"), float("nan"), error)
        checks.append(text)
    if not checks:
        checks.append(judge.undecided(subject.name, "float32", "(none)", "nothing was compared"))
    if result.first_difference and all(check.status == "pass" for check in checks):
        # what no single tensor shows: another number of steps, a state that drifts
        said = result.first_difference
        nan = float("nan")
        checks.append(Check(subject.name, "float32", said.split(": ")[1], judge.SEMANTICS, "fail", nan, nan, said))
    defaults = {"seed": 0, "perturbed_runs": 1} | ({"steps": STEPS} if "script" in subject.options else {})
    options = {**defaults, **subject.options, "modes": list(subject.modes), "timeout": config.timeout}
    return Judged(subject.name, tuple(checks), result, _hashes(subject), options)


def _compared(subject: GateSubject, config: GateConfig) -> ParityResult:
    options: Any = {"modes": subject.modes, "timeout": config.timeout, "locate": True}
    options["perturbed_runs"] = subject.options.get("perturbed_runs", 1)
    options |= {key: subject.options[key] for key in ("torch_python", "jax_python") if key in subject.options}
    if "model" in subject.options:
        return compare_model(
            subject.options["model"],
            subject.options.get("jax"),
            weights=subject.path("weights"),
            manifest=subject.path("manifest"),
            arguments=subject.options.get("args", ""),
            inputs=subject.options.get("inputs", ""),
            recipe=subject.path("recipe"),
            seed=subject.options.get("seed", 0),
            **options,
        )
    script, rewritten = subject.torch_file, subject.jax_file
    assert script is not None and rewritten is not None
    try:
        root = workdir.project_root(script, rewritten)
    except Fatal as error:
        return _not_run(script, rewritten, str(error.diagnostic))
    return compare_script(
        script,
        rewritten,
        subject.path("manifest") or workdir.manifest_of(rewritten, script, root),
        steps=subject.options.get("steps", STEPS),
        argv=subject.options.get("argv", ()),
        prelude=subject.path("prelude"),
        root=root,
        **options,
    )


def _not_run(script: Path, rewritten: Path, error: str) -> ParityResult:
    return ParityResult(str(script), str(rewritten), False, 2, code="PAR211", errors=(f"PAR211: {error}",))


def _stale(subject: GateSubject) -> str:
    """What is wrong with a rewritten file that must be what its source gives now."""
    script, rewritten = subject.torch_file, subject.jax_file
    if not subject.options.get("fresh") or script is None or rewritten is None or not rewritten.is_file():
        return ""
    try:
        made = rewriting.rewritten([str(script)])
    except Fatal as error:
        return f"PAR215: {rewritten}: {script} cannot be rewritten: {error.diagnostic}"
    text = made.script.text
    if text is None or not made.script.changed:
        said = "; ".join(str(found) for found in made.diagnostics)
        return f"PAR215: {rewritten}: {script} was not rewritten: {said}"
    same = text == rewritten.read_text(encoding="utf-8", errors="replace")
    return "" if same else f"PAR215: {rewritten} is stale: {script} now gives another text"


def _hashes(subject: GateSubject) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in subject.files}


# --- the ratchet -----------------------------------------------------------------------------------------------------


def _baseline(path: Path) -> dict[str, float]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in data["ratios"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"{path}: {error}; `migrate gate --update-baseline` writes it"
        raise ParityError("PAR211", text) from None


def _ratcheted(subject: Judged, baseline: dict[str, float]) -> Judged:
    """A tensor within its budget still fails where it is worse than it used to be; one that is gone is not decided."""
    held = [_held(check, baseline) for check in subject.checks]
    here = {check.key for check in held}
    for key in baseline:
        name, mode, tensor, rule = key.split("|")
        if name == subject.name and key not in here:
            text = f"{tensor} is in the baseline and was not compared"
            held.append(judge.undecided(name, mode, tensor, text, rule))
    return replace(subject, checks=tuple(held))


def _held(check: Check, baseline: dict[str, float]) -> Check:
    if check.rule != judge.PRECISION or check.status != "pass" or check.key not in baseline:
        return check
    limit = tolerance.RATCHET.times * max(baseline[check.key], 1.0)
    if check.value <= limit:
        return check
    text = f"{check.message}; it was {baseline[check.key]:.2f} in the baseline, the ratchet allows {limit:.2f}"
    return replace(check, status="fail", limit=limit, message=text)


def write_baseline(result: GateResult, path: Path, *, partial: bool = False) -> None:
    """What later runs are held against; where only some subjects were run, what is said of the others is kept."""
    here = {subject.name for subject in result.judged}
    earlier = _baseline(path) if partial and path.is_file() else {}
    ratios = {key: value for key, value in earlier.items() if key.split("|")[0] not in here}
    ratios |= {c.key: round(c.value, 4) for c in result.checks if c.rule == judge.PRECISION and c.status == "pass"}
    write_whole(path, json.dumps({"format": "migrate-gate-baseline", "version": 1, "ratios": ratios}, indent=1) + "\n")


# --- where it is written ---------------------------------------------------------------------------------------------


def _placed(judged: Judged, subject: GateSubject) -> Judged:
    first = judged.first
    if first is None:
        return judged
    name = first.tensor.rpartition(" of ")[2].removeprefix("the model ")
    ours = subject.jax_file or subject.torch_file  # what is rewritten afresh is mended where it came from
    return replace(judged, torch_place=place(subject.torch_file, name), jax_place=place(ours, name))


def place(file: Path | None, name: str) -> Place | None:
    """Where a layer is written: `self.conv = …` for Net.block.conv.weight; else its class; else the first line."""
    if file is None or not file.is_file():
        return None
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    model, _, path = name.partition(".")
    for part in reversed([p for p in path.split(" ")[0].split(".") if p and not p.isdigit()]):
        for number, line in enumerate(lines, start=1):
            code = line.strip()
            if code.startswith((f"self.{part} =", f"self.{part}:")) or f'name="{part}"' in code:
                return Place(str(file), number, code)
    for number, line in enumerate(lines, start=1):
        if line.startswith(f"class {model.partition('#')[0]}"):
            return Place(str(file), number, line.strip())
    return Place(str(file), 1, lines[0].strip() if lines else "")


def environment() -> dict[str, str]:
    """What a figure depends on besides the code."""
    return {
        "migrate": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
        "threads": "1",
    }

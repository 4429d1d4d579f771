"""Compare a torch training script with its rewrite: run both, climb the ladder, answer with a `ParityResult`."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from migrate import manifest as manifests
from parity import answers, curves, divergence, exact, ladder, processes, tolerance
from parity.answers import Ladder
from parity.codes import ParityError
from parity.divergence import Origin
from parity.exact import ORACLES, Exact
from parity.judge import Tensors
from parity.ladder import Rung, Sides, Verdict
from parity.measures import relative_scalar
from parity.modes import MODES
from parity.record import Recording
from parity.result import ParityResult
from parity.runs import Runs
from parity.tensors import tensors

TIMEOUT = 3600.0  # seconds for one run
PERTURBED_RUNS = 3
KINKS = (
    "gradients differ by no more than those of torch where roundings decide a kink: the slope of a ReLU at zero, the "
    "largest of two entries of a pooling window"
)


def compare_script(
    script: Path,
    rewritten: Path,
    manifest: Path | None,
    *,
    steps: int = 20,
    argv: Sequence[str] = (),
    prelude: Path | None = None,
    workdir: Path | None = None,
    timeout: float = TIMEOUT,
    perturbed_runs: int = PERTURBED_RUNS,
    float64: bool = True,
    root: Path | None = None,
    modes: Sequence[str] = (),
    torch_python: str | None = None,
    jax_python: str | None = None,
    locate: bool = False,
    oracle: str | None = None,
) -> ParityResult:
    """Run both scripts for `steps` losses from the same weights and compare what they did. Never raises for bad input.

    `manifest` is None for a script without models, whose tensors are made by both sides from the same draws. Each side
    runs in a copy of the script's folder with `argv` as its arguments. `prelude` is a Python file that runs
    before the script on both sides. The copies and recordings are kept under `workdir`, or else deleted. `timeout` is
    in seconds, for each run. `perturbed_runs` further torch runs measure how far torch is from itself.
    With `float64` both sides run once more in that type, which decides whether they mean the same. `root` is the top
    folder of the project that the script belongs to, where that is not the script's own.
    `modes` (of MODES) asks for the tensors of both sides, and runs the rewrite in each mode.
    `torch_python` and `jax_python` are the interpreters of either side (default: this one); each needs numpy besides
    its framework, and what the script imports. `locate` follows a first layer that differs to its origin.
    With `oracle` (mpmath or flint) the rewrite's first step is evaluated in high precision too, and both sides are held
    against that.
    """
    started = time.monotonic()
    script, rewritten = Path(script), Path(rewritten)
    pythons = {"torch": torch_python or sys.executable, "jax": jax_python or sys.executable}
    asked = _Asked(perturbed_runs, float64, tuple(modes), locate, oracle)
    try:
        with processes.unwinding(), ExitStack() as stack:
            if workdir is None:
                base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
            else:
                base = Path(workdir)
                base.mkdir(parents=True, exist_ok=True)
            if manifest is None:
                manifest = base / "weights.json"
                manifests.write(manifests.Manifest(script.name, "linen", ()), manifest)
            runs = Runs(
                script, rewritten, Path(manifest), steps, tuple(argv), prelude, base.resolve(), timeout, root, pythons
            )
            result = _compared(runs, asked)
    except (ParityError, OSError) as raised:
        error = raised if isinstance(raised, ParityError) else ParityError("PAR213", _system(raised))
        result = ParityResult(
            script=str(script),
            rewritten=str(rewritten),
            passed=False,
            exit_code=error.exit_code,
            first_difference=str(error) if error.exit_code == 1 else None,
            code=error.code,
            errors=(str(error),),
            requested_steps=steps,
        )
    return replace(result, seconds=time.monotonic() - started)


@dataclass(frozen=True)
class _Asked:
    """What of a comparison was asked for, as `compare_script` takes it."""

    perturbed_runs: int
    float64: bool
    modes: tuple[str, ...]
    locate: bool
    oracle: str | None

    def check(self) -> None:
        for mode in self.modes:
            if mode not in MODES:
                raise ParityError("PAR211", f"--mode {mode}: known are {', '.join(MODES)}, all")
        if self.oracle not in (None, *ORACLES):
            raise ParityError("PAR211", f"--oracle {self.oracle!r}: known are {', '.join(ORACLES)}")


def _compared(runs: Runs, asked: _Asked) -> ParityResult:
    manifest = runs.check()
    asked.check()
    sides = runs.both(manifest, asked.perturbed_runs)
    wide, oracle, wide_sides = _wide(runs, sides) if asked.float64 else (Ladder(), None, None)
    sides = replace(sides, exact=oracle)
    rungs = ladder.climb(sides)
    if ladder.slopes_differ(rungs) and wide.differing is None:
        sides = replace(sides, kinked=runs.kinked())
        rungs = ladder.climb(sides)
    result = _judged(runs, sides, rungs, asked.perturbed_runs)
    if asked.modes:
        result = _in_modes(runs, asked.modes, result, sides, wide_sides)
    if asked.locate:
        result = replace(result, origin=_origin(runs, sides, wide_sides, wide.rungs or result.rungs))
    if asked.float64:
        result = _with_semantics(result, sides, wide, oracle)
        result = replace(result, notes=(*result.notes, *_told_of(wide_sides, sides)))
    return _with_exact(result, _exact(runs, sides, asked.oracle)) if asked.oracle else result


def _wide(runs: Runs, sides: Sides) -> tuple[Ladder, Recording | None, Sides | None]:
    """The climb in float64, and what torch did there; never an error: what cannot run decides nothing."""
    try:
        theirs = runs.wide("torch")
        if theirs.error and not theirs.losses:
            return Ladder(undecided=f"torch in float64 {runs.told('torch-float64', theirs)}"), None, None
        ours = runs.wide("jax")
        if ours.error and not ours.losses:
            return Ladder(undecided=f"the rewrite in float64 {runs.told('jax-float64', ours)}"), theirs, None
        if len(theirs.losses) < len(sides.torch.losses):
            return Ladder(undecided=f"torch took {len(theirs.losses)} steps in float64"), theirs, None
        wide = Sides(theirs, ours, sides.perturbed, sides.manifest, tolerance.FLOAT64)
        return Ladder(tuple(ladder.climb(wide)), tuple(ladder.step_table(wide))), theirs, wide
    except ParityError as error:
        return Ladder(undecided=str(error)), None, None


def _told_of(wide: Sides | None, sides: Sides) -> list[str]:
    """What the comparison in float64 notes beside."""
    notes = dict.fromkeys(wide.notes if wide is not None else [])
    return [f"in float64: {note}" for note in notes if note not in sides.notes]


def _judged(runs: Runs, sides: Sides, rungs: Sequence[Rung], perturbed_runs: int) -> ParityResult:
    theirs, ours = sides.torch, sides.jax
    differing = next((rung for rung in rungs if rung.verdict is Verdict.DIFFERS), None)
    drawn = curves.curves(sides)
    outside = next((curve for curve in drawn if curve.first), None)
    if differing is None and outside is not None and len(sides.perturbed) >= curves.RUNS:
        differing = Rung("curves", Verdict.DIFFERS, code="PAR110", first=outside.said)
    errors = [
        f"{code}: {path}: {runs.told(name, side)}"
        for code, path, name, side in (
            ("PAR201", runs.script, "torch", theirs),
            ("PAR206", runs.rewritten, "jax", ours),
        )
        if side.error
    ]
    if theirs.losses and not any(theirs.losses) and not any(ours.losses):
        errors.append(f"PAR114: {runs.script}: every loss is 0 on both sides, from which nothing follows")
    notes = [*sides.notes, *theirs.notes, *ours.notes, *(rung.note for rung in rungs if rung.note)]
    notes += [f"PAR109: {rung.name}: not compared" for rung in rungs if rung.verdict is Verdict.NOT_COMPARED]
    if len(theirs.losses) == len(ours.losses) < runs.steps and not errors:
        notes.append(f"PAR108: both scripts ended after {len(theirs.losses)} of {runs.steps} steps")
    if sides.kinked and not ladder.slopes_differ(rungs):
        notes.append(KINKS)
    if len(sides.perturbed) < perturbed_runs:
        failed = perturbed_runs - len(sides.perturbed)
        notes.append(f"{failed} of the {perturbed_runs} runs that measure torch's own spread failed")
    return ParityResult(
        script=str(runs.script),
        rewritten=str(runs.rewritten),
        passed=differing is None and not errors,
        exit_code=1 if differing else 2 if errors else 0,
        steps=tuple(ladder.step_table(sides)),
        rungs=tuple(rungs),
        first_difference=f"{differing.code}: {differing.first}" if differing else None,
        code=differing.code if differing else errors[0].partition(":")[0] if errors else None,
        errors=tuple(errors),
        notes=tuple(notes),
        curves=drawn,
        envelope=len(sides.perturbed) >= curves.RUNS,
        requested_steps=runs.steps,
        versions=theirs.versions | ours.versions,
    )


def _in_modes(runs: Runs, modes: Sequence[str], result: ParityResult, sides: Sides, wide: Sides | None) -> ParityResult:
    """The result with the tensors of each mode that ran. What failed is an error of it; the rest still stands."""
    found: dict[str, Tensors] = {}
    failed: list[ParityError] = []
    ran = {"": sides.torch}
    for mode in modes:
        try:
            found[mode] = tensors(sides if mode == "jit" else runs.in_mode(mode, sides, ran), wide)
        except ParityError as error:
            failed.append(error)
    result = replace(result, tensors=found)
    if not failed:
        return result
    errors = (*result.errors, *map(str, failed))
    code, status = (result.code, 1) if result.exit_code == 1 else (failed[0].code, failed[0].exit_code)
    return replace(result, errors=errors, passed=False, exit_code=status, code=code)


def _origin(runs: Runs, sides: Sides, wide: Sides | None, rungs: Sequence[Rung]) -> Origin | None:
    """Three more runs: torch and the rewrite with the layer probed, and the rewrite without any recording."""
    rows = [row for rung in rungs for row in rung.rows if row.tap]
    row = next((row for row in rows if row.differs), None)
    if row is None or row.tap is None:
        return None
    agreed = [earlier.name.removeprefix("output of ") for earlier in rows[: rows.index(row)]]
    dtype = "float64" if wide is not None else "float32"
    layer, before = row.name.removeprefix("output of "), agreed[-1] if agreed else "the input"
    try:
        theirs, ours = runs.probed(row.tap, dtype)
        pairs = zip(sides.jax.losses, runs.untapped().losses, strict=False)
        untapped = max((relative_scalar(one, other) for one, other in pairs), default=math.inf)
        found = divergence.origin(layer, row.tap, theirs, ours, row.limit, untapped, before)
        if found.here:
            return found
        block, rewritten = runs.probed(divergence.around(row.tap), dtype)
        said = divergence.narrowed(block.operations, rewritten.operations, row.limit)
        return replace(found, narrowed=said)
    except (ParityError, KeyError):  # what cannot be followed further is reported as it is
        return None


def _exact(runs: Runs, sides: Sides, named: str) -> Exact:
    """The rewrite's first step in high precision; never an error: what cannot be evaluated decides nothing."""
    try:
        run = runs.exact(named)
    except ParityError as error:
        return Exact(named, undecided=str(error))
    if run.error or not run.losses:
        return Exact(named, undecided=f"{run.error}" if run.error_kind == "PAR113" else runs.told("jax-exact", run))
    return exact.measured(sides, run)


def _with_semantics(result: ParityResult, sides: Sides, wide: Ladder, oracle: Recording | None) -> ParityResult:
    """The result with its three answers. What float64 cannot decide is left to float32, and said."""
    verdicts = answers.answers(result, wide, sides, oracle)
    differing = wide.differing
    result = replace(result, verdicts=verdicts, float64=wide)
    if differing is None or result.exit_code:
        return result
    first = f"{differing.code}: {differing.first} (in float64)"
    return replace(result, passed=False, exit_code=1, first_difference=first, code=differing.code)


def _with_exact(result: ParityResult, found: Exact) -> ParityResult:
    """The result whose answer on precision is the oracle's. Where all else agrees, an error beyond its budget is its
    first difference (PAR112)."""
    verdicts = tuple(found.answer if answer.question == "precision" else answer for answer in result.verdicts)
    result = replace(result, exact=found, verdicts=verdicts or (found.answer,))
    if not found.failed or result.exit_code:
        return result
    return replace(result, passed=False, exit_code=1, code="PAR112", first_difference=f"PAR112: {found.failed[0]}")


def _system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"

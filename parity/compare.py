"""Compare a torch training script with its rewrite: run both, climb the ladder, answer with a `ParityResult`."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from migrate import manifest as manifests
from parity import answers, curves, divergence, exact, ladder, processes, tolerance, workdir
from parity.answers import Answer, Ladder
from parity.codes import ParityError
from parity.curves import Curve
from parity.divergence import Origin
from parity.exact import ORACLES, Exact
from parity.judge import Tensors
from parity.ladder import Rung, Sides, StepRow, Verdict
from parity.measures import relative_scalar
from parity.modes import MODES, ModeRow
from parity.processes import Child
from parity.record import Recording, RunConfig
from parity.tensors import tensors

TIMEOUT = 3600.0  # seconds for one run
PERTURBED_RUNS = 3
KINKS = (
    "gradients differ by no more than those of torch where roundings decide a kink: the slope of a ReLU at zero, the "
    "largest of two entries of a pooling window"
)


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


def compare_script(
    script: Path,
    rewritten: Path,
    manifest: Path,
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

    Each side runs in a copy of the script's folder with `argv` as its arguments. `prelude` is a Python file that runs
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
    script, rewritten, manifest = Path(script), Path(rewritten), Path(manifest)
    try:
        with ExitStack() as stack:
            if workdir is None:
                base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
            else:
                base = Path(workdir)
                base.mkdir(parents=True, exist_ok=True)
            run = _Run(
                script,
                rewritten,
                manifest,
                steps,
                tuple(argv),
                prelude,
                base.resolve(),
                timeout,
                perturbed_runs,
                float64,
                root,
                tuple(modes),
                {"torch": torch_python or sys.executable, "jax": jax_python or sys.executable},
                locate,
                oracle,
            )
            return run.result(started)
    except (ParityError, OSError) as raised:
        error = raised if isinstance(raised, ParityError) else ParityError("PAR213", _system(raised))
        return ParityResult(
            script=str(script),
            rewritten=str(rewritten),
            passed=False,
            exit_code=error.exit_code,
            first_difference=str(error) if error.exit_code == 1 else None,
            code=error.code,
            errors=(str(error),),
            requested_steps=steps,
            seconds=time.monotonic() - started,
        )


@dataclass(frozen=True)
class _Run:
    script: Path
    rewritten: Path
    manifest: Path
    steps: int
    argv: tuple[str, ...]
    prelude: Path | None
    base: Path
    timeout: float
    perturbed_runs: int
    float64: bool
    root: Path | None
    modes: tuple[str, ...]
    pythons: dict[str, str]
    locate: bool
    oracle: str | None

    def result(self, started: float) -> ParityResult:
        manifest = self._check_inputs()
        torch_side = self._start("torch", self._config("torch")).recording()
        if torch_side.error is not None and not torch_side.losses:
            raise ParityError("PAR201", f"{self.script}: {self._told('torch', torch_side)}")
        if not torch_side.losses:
            raise ParityError(
                "PAR207", f"{self.script}: no loss.backward() was reached, so there is nothing to compare"
            )
        ours = self._start("jax", self._config("jax"))
        try:
            perturbed = [self._perturbed(seed) for seed in range(self.perturbed_runs)]
            jax_side = ours.recording()
        finally:
            ours.end()
        sides = Sides(torch_side, jax_side, tuple(run for run in perturbed if run.losses), manifest)
        self._must_have_stepped(jax_side)
        wide, oracle, wide_sides = self._wide(sides) if self.float64 else (Ladder(), None, None)
        sides = replace(sides, exact=oracle)
        rungs = ladder.climb(sides)
        if ladder.slopes_differ(rungs) and wide.differing is None:
            sides = replace(sides, kinked=tuple(run for run in map(self._kinked, (1, -1)) if run.losses))
            rungs = ladder.climb(sides)
        result = self._judge(sides, rungs, started)
        if self.modes:
            result = self._in_modes(result, sides, wide_sides)
        if self.locate:
            result = replace(result, origin=self._origin(sides, wide_sides, wide.rungs or result.rungs))
        if self.float64:
            result = _with_semantics(result, sides, wide, oracle, started)
        return _with_exact(result, self._exact(sides)) if self.oracle else result

    def _exact(self, sides: Sides) -> Exact:
        """The rewrite's first step in high precision; never an error: what cannot be evaluated decides nothing."""
        named = str(self.oracle)
        try:
            config = replace(self._config("jax-exact"), oracle=self.oracle, steps=1)
            run = self._start("jax-exact", config, MODES["eager"].environment).recording()
        except ParityError as error:
            return Exact(named, undecided=str(error))
        if run.error or not run.losses:
            return Exact(
                named, undecided=f"{run.error}" if run.error_kind == "PAR113" else self._told("jax-exact", run)
            )
        return exact.measured(sides, run)

    def _origin(self, sides: Sides, wide: Sides | None, rungs: Sequence[Rung]) -> Origin | None:
        """Three more runs: torch and the rewrite with the layer probed, and the rewrite without any recording."""
        rows = [row for rung in rungs for row in rung.rows if row.tap]
        row = next((row for row in rows if row.differs), None)
        if row is None or row.tap is None:
            return None
        agreed = [earlier.name.removeprefix("output of ") for earlier in rows[: rows.index(row)]]
        dtype = "float64" if wide is not None else "float32"
        layer, before = row.name.removeprefix("output of "), agreed[-1] if agreed else "the input"
        try:
            theirs, ours = self._probed(row.tap, dtype)
            plain = self._start("jax-untapped", replace(self._config("jax-untapped"), taps=False)).recording()
            pairs = zip(sides.jax.losses, plain.losses, strict=False)
            untapped = max((relative_scalar(one, other) for one, other in pairs), default=math.inf)
            found = divergence.origin(layer, row.tap, theirs, ours, row.limit, untapped, before)
            if found.here:
                return found
            block, rewritten = self._probed(divergence.around(row.tap), dtype)
            said = divergence.narrowed(block.operations, rewritten.operations, row.limit)
            return replace(found, narrowed=said)
        except (ParityError, KeyError):  # what cannot be followed further is reported as it is
            return None

    def _probed(self, tap: tuple[str, str], dtype: str) -> tuple[Recording, Recording]:
        """One call of one layer, looked into on both sides; in the rewrite with torch's inputs."""
        theirs = self._start(
            "torch-probed", replace(self._config("torch-probed", dtype=dtype), probe=tap[0])
        ).recording()
        config = self._config("jax-probed", dtype=dtype)
        config = replace(config, probe=tap[1], probe_inputs=self._recorded("torch-probed"))
        return theirs, self._start("jax-probed", config).recording()

    def _recorded(self, side: str) -> str:
        return str(self.base / side / "recording")

    def _in_modes(self, result: ParityResult, sides: Sides, wide: Sides | None) -> ParityResult:
        """The result with the tensors of each mode that ran. What failed is an error of it; the rest still stands."""
        found: dict[str, Tensors] = {}
        failed: list[ParityError] = []
        ran = {"": sides.torch}
        for mode in self.modes:
            try:
                found[mode] = tensors(sides if mode == "jit" else self._executed(sides, mode, ran), wide)
            except ParityError as error:
                failed.append(error)
        result = replace(result, tensors=found)
        if not failed:
            return result
        errors = (*result.errors, *map(str, failed))
        code, status = (result.code, 1) if result.exit_code == 1 else (failed[0].code, failed[0].exit_code)
        return replace(result, errors=errors, passed=False, exit_code=status, code=code)

    def _executed(self, sides: Sides, name: str, ran: dict[str, Recording]) -> Sides:
        """Both sides in another mode of execution: torch too, where the mode changes its numbers (`ran` keeps that)."""
        mode = MODES[name]
        numbers = f"torch-{mode.numbers}"
        if mode.numbers not in ran:
            config = replace(self._config(numbers, dtype=mode.dtype), products=mode.products)
            ran[mode.numbers] = self._start(numbers, config).recording()
        config = replace(self._config(f"jax-{name}", dtype=mode.dtype), products=mode.products)
        self._must_have_run(ran[mode.numbers], "PAR201", self.script, numbers, name)
        ours = self._start(f"jax-{name}", config, mode.environment).recording()
        self._must_have_run(ours, "PAR206", self.rewritten, f"jax-{name}", name)
        return replace(sides, torch=ran[mode.numbers], jax=ours)

    def _must_have_run(self, run: Recording, code: str, path: Path, side: str, mode: str) -> None:
        if run.error and not run.losses:
            raise ParityError(code, f"{path}, {mode}: {self._told(side, run)}")

    def _wide(self, sides: Sides) -> tuple[Ladder, Recording | None, Sides | None]:
        """The climb in float64, and what torch did there; never an error: what cannot run decides nothing."""
        try:
            theirs = self._start("torch-float64", self._config("torch-float64", dtype="float64")).recording()
            if theirs.error and not theirs.losses:
                return Ladder(undecided=f"torch in float64 {self._told('torch-float64', theirs)}"), None, None
            ours = self._start("jax-float64", self._config("jax-float64", dtype="float64")).recording()
            if ours.error and not ours.losses:
                return Ladder(undecided=f"the rewrite in float64 {self._told('jax-float64', ours)}"), theirs, None
            if len(theirs.losses) < len(sides.torch.losses):
                return Ladder(undecided=f"torch took {len(theirs.losses)} steps in float64"), theirs, None
            wide = Sides(theirs, ours, sides.perturbed, sides.manifest, tolerance.FLOAT64)
            return Ladder(tuple(ladder.climb(wide)), tuple(ladder.step_table(wide))), theirs, wide
        except ParityError as error:
            return Ladder(undecided=str(error)), None, None

    def _perturbed(self, seed: int) -> Recording:
        """Torch again, with other roundings; every other run with two threads, which changes the order of its sums."""
        config = self._config(f"torch-perturbed-{seed}", threads=2 - seed % 2, perturb=seed)
        return self._start(f"torch-perturbed-{seed}", config).recording(must=False)

    def _kinked(self, sign: int) -> Recording:
        """Torch again, with the kinks of its ReLUs and maxima taken the other way where roundings decide them."""
        side = f"torch-kinks-{'up' if sign > 0 else 'down'}"
        return self._start(side, replace(self._config(side), kinks=sign)).recording(must=False)

    def _check_inputs(self) -> manifests.Manifest:
        for path, what in ((self.script, "script"), (self.rewritten, "rewritten script"), (self.manifest, "manifest")):
            if not path.is_file():
                raise ParityError("PAR211", f"{path}: no such {what}")
        if self.prelude is not None and not self.prelude.is_file():
            raise ParityError("PAR211", f"{self.prelude}: no such prelude")
        for mode in self.modes:
            if mode not in MODES:
                raise ParityError("PAR211", f"--mode {mode}: known are {', '.join(MODES)}, all")
        if self.oracle not in (None, *ORACLES):
            raise ParityError("PAR211", f"--oracle {self.oracle!r}: known are {', '.join(ORACLES)}")
        if self.steps < 1:
            raise ParityError("PAR211", f"--steps {self.steps}: at least one step is needed")
        try:
            return manifests.read(self.manifest)
        except (manifests.ManifestError, OSError) as error:
            raise ParityError("PAR211", str(error)) from None

    def _config(self, side: str, *, threads: int = 1, perturb: int | None = None, dtype: str = "float32") -> RunConfig:
        folder = self.base / side / "run"
        ours, twin = side.startswith("jax"), "torch" if dtype == "float32" else f"torch-{dtype}"
        overlay = self.rewritten.resolve() if ours else None
        root = self.root.resolve() if self.root is not None else None
        copy = workdir.copy_for_run(self.script.resolve(), folder, overlay, root)
        return RunConfig(
            script=str(copy),
            cwd=str(copy.parent),
            root=str(folder),
            out=str(self.base / side / "recording"),
            argv=self.argv,
            steps=self.steps,
            prelude=str(self.prelude.resolve()) if self.prelude else None,
            threads=threads,
            perturb=perturb,
            dtype=dtype,
            manifest=str(self.manifest.resolve()) if ours else None,
            torch_recording=str(self.base / twin / "recording") if ours else None,
        )

    def _start(self, side: str, config: RunConfig, extra: Mapping[str, str] | None = None) -> Child:
        path = self.base / side / "config.json"
        config.write(path)
        shutil.rmtree(config.out, ignore_errors=True)  # what an earlier run left there is not what this one did
        framework = "jax" if side.startswith("jax") else "torch"
        command = [self.pythons[framework], "-m", f"parity.run_{framework}", str(path)]
        foreign = self.pythons[framework] != sys.executable
        packages = processes.packages_alone(self.base / "packages") if foreign else processes.PACKAGES
        variables = processes.environment(config.threads, extra, packages)
        return processes.start(side, command, self.base / side, config.cwd, variables, self.timeout)

    def _told(self, name: str, side: Recording) -> str:
        """What ended a run. Files are named as they are in the user's folder, not as in its copy."""
        after = f"after {len(side.losses)} steps " if side.losses else ""
        copy = f"{self.base / name / 'run'}{os.sep}"
        return f"failed {after}with {side.error_kind}\n{side.error}".replace(copy, "")

    def _must_have_stepped(self, ours: Recording) -> None:
        if ours.error_kind and ours.error_kind.startswith("PAR") and not ours.losses:
            raise ParityError(ours.error_kind, f"{self.rewritten}: {ours.error}")
        if not ours.losses:
            if ours.error:
                raise ParityError("PAR206", f"{self.rewritten}: {self._told('jax', ours)}")
            text = "no jax.value_and_grad or jax.grad was reached, so there is nothing to compare"
            raise ParityError("PAR207", f"{self.rewritten}: {text}")

    def _judge(self, sides: Sides, rungs: Sequence[Rung], started: float) -> ParityResult:
        theirs, ours = sides.torch, sides.jax
        differing = next((rung for rung in rungs if rung.verdict is Verdict.DIFFERS), None)
        drawn = curves.curves(sides)
        outside = next((curve for curve in drawn if curve.first), None)
        if differing is None and outside is not None and len(sides.perturbed) >= curves.RUNS:
            differing = Rung("curves", Verdict.DIFFERS, code="PAR110", first=outside.said)
        errors = [
            f"{code}: {path}: {self._told(name, side)}"
            for code, path, name, side in (
                ("PAR201", self.script, "torch", theirs),
                ("PAR206", self.rewritten, "jax", ours),
            )
            if side.error
        ]
        notes = [*sides.notes, *theirs.notes, *ours.notes, *(rung.note for rung in rungs if rung.note)]
        notes += [f"PAR109: {rung.name}: not compared" for rung in rungs if rung.verdict is Verdict.NOT_COMPARED]
        if len(theirs.losses) == len(ours.losses) < self.steps and not errors:
            notes.append(f"PAR108: both scripts ended after {len(theirs.losses)} of {self.steps} steps")
        if sides.kinked and not ladder.slopes_differ(rungs):
            notes.append(KINKS)
        if len(sides.perturbed) < self.perturbed_runs:
            failed = self.perturbed_runs - len(sides.perturbed)
            notes.append(f"{failed} of the {self.perturbed_runs} runs that measure torch's own spread failed")
        return ParityResult(
            script=str(self.script),
            rewritten=str(self.rewritten),
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
            requested_steps=self.steps,
            versions=theirs.versions | ours.versions,
            seconds=time.monotonic() - started,
        )


def _with_semantics(
    result: ParityResult, sides: Sides, wide: Ladder, oracle: Recording | None, started: float
) -> ParityResult:
    """The result with its three answers. What float64 cannot decide is left to float32, and said."""
    verdicts = answers.answers(result, wide, sides, oracle)
    differing = wide.differing
    seconds = time.monotonic() - started
    result = replace(result, verdicts=verdicts, float64=wide, seconds=seconds)
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

"""The runs of one comparison: what each side is told, and what it must have done to be compared."""

from __future__ import annotations

import functools
import math
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from migrate import manifest as manifests
from parity import processes, workdir
from parity.codes import ParityError
from parity.ladder import Sides
from parity.measures import has_nan
from parity.modes import MODES, Mode
from parity.processes import Child
from parity.record import Recording, RunConfig


@dataclass(frozen=True)
class Runs:
    """A script and its rewrite, which run under `base`, each time in a fresh copy of their folder.

    `root` is the top folder of the script's project (None: its own), `timeout` in seconds for each run, `pythons` the
    interpreter of either side.
    """

    script: Path
    rewritten: Path
    manifest: Path
    steps: int
    argv: tuple[str, ...]
    prelude: Path | None
    base: Path
    timeout: float
    root: Path | None
    pythons: Mapping[str, str]

    def check(self) -> manifests.Manifest:
        """The manifest. Raises ParityError PAR211 for what cannot be run."""
        for path, what in ((self.script, "script"), (self.rewritten, "rewritten script"), (self.manifest, "manifest")):
            if not path.is_file():
                raise ParityError("PAR211", f"{path}: no such {what}")
        if self.prelude is not None and not self.prelude.is_file():
            raise ParityError("PAR211", f"{self.prelude}: no such prelude")
        if self.steps < 1:
            raise ParityError("PAR211", f"--steps {self.steps}: at least one step is needed")
        return self.described

    @functools.cached_property
    def described(self) -> manifests.Manifest:
        """What the manifest says, read once for all runs. Raises ParityError PAR211."""
        try:
            return manifests.read(self.manifest)
        except (manifests.ManifestError, OSError) as error:
            raise ParityError("PAR211", str(error)) from None

    def both(self, manifest: manifests.Manifest, perturbed_runs: int) -> Sides:
        """Torch, the rewrite from torch's weights, and torch again with other roundings."""
        theirs = self._start("torch", self._config("torch")).recording()
        if theirs.error is not None and not theirs.losses:
            raise ParityError("PAR201", f"{self.script}: {self.told('torch', theirs)}")
        if not theirs.losses:
            raise ParityError(
                "PAR207", f"{self.script}: no loss.backward() was reached, so there is nothing to compare"
            )
        self._must_be_numbers(theirs)
        running = self._start("jax", self._config("jax"))
        try:
            perturbed = [self._perturbed(seed) for seed in range(perturbed_runs)]
            ours = running.recording()
        finally:
            running.end()
        self._must_have_stepped(ours)
        return Sides(theirs, ours, tuple(run for run in perturbed if run.losses), manifest)

    def _must_be_numbers(self, theirs: Recording) -> None:
        """Raises ParityError PAR216 where torch has nothing that the rewrite could be held against."""
        weights = [name.replace("|", ".") for name, value in theirs.initial.items() if has_nan(value)]
        if weights:
            more = f" and {len(weights) - 1} more" if len(weights) > 1 else ""
            raise ParityError("PAR216", f"{weights[0]}{more} is NaN in torch before the first step")
        if math.isnan(theirs.losses[0]):
            raise ParityError("PAR216", "the first loss is NaN in torch")

    def kinked(self) -> tuple[Recording, ...]:
        """Torch twice more, with the kinks of its ReLUs and maxima taken the other way where roundings decide them."""
        return tuple(run for run in map(self._kinked, (1, -1)) if run.losses)

    def wide(self, framework: str) -> Recording:
        """One side in float64, which may have failed."""
        side = f"{framework}-float64"
        return self._start(side, self._config(side, dtype="float64")).recording()

    def in_mode(self, name: str, sides: Sides, ran: dict[str, Recording]) -> Sides:
        """Both sides in another mode of execution: torch too, where the mode changes its numbers (`ran` keeps that)."""
        mode = MODES[name]
        numbers = f"torch-{mode.numbers}"
        if mode.numbers not in ran:
            ran[mode.numbers] = self._start(numbers, self._in(mode, numbers)).recording()
        self._must_have_run(ran[mode.numbers], "PAR201", self.script, numbers, name)
        ours = self._start(f"jax-{name}", self._in(mode, f"jax-{name}"), mode.environment).recording()
        self._must_have_run(ours, "PAR206", self.rewritten, f"jax-{name}", name)
        return replace(sides, torch=ran[mode.numbers], jax=ours)

    def probed(self, tap: tuple[str, str], dtype: str) -> tuple[Recording, Recording]:
        """One call of one layer, looked into on both sides; in the rewrite with torch's inputs."""
        config = replace(self._config("torch-probed", dtype=dtype), probe=tap[0])
        theirs = self._start("torch-probed", config).recording()
        config = self._config("jax-probed", dtype=dtype)
        config = replace(config, probe=tap[1], probe_inputs=self._recorded("torch-probed"))
        return theirs, self._start("jax-probed", config).recording()

    def untapped(self) -> Recording:
        """The rewrite, of which nothing but the losses is recorded."""
        return self._start("jax-untapped", replace(self._config("jax-untapped"), taps=False)).recording()

    def exact(self, oracle: str) -> Recording:
        """The rewrite's first step on numbers of high precision."""
        config = replace(self._config("jax-exact"), oracle=oracle, steps=1)
        return self._start("jax-exact", config, MODES["eager"].environment).recording()

    def told(self, name: str, side: Recording) -> str:
        """What ended a run. Files are named as they are in the user's folder, not as in its copy."""
        after = f"after {len(side.losses)} steps " if side.losses else ""
        copy = f"{self.base / name / 'run'}{os.sep}"
        return f"failed {after}with {side.error_kind}\n{side.error}".replace(copy, "")

    def _perturbed(self, seed: int) -> Recording:
        """Torch again, with other roundings; every other run with two threads, which changes the order of its sums."""
        config = self._config(f"torch-perturbed-{seed}", threads=2 - seed % 2, perturb=seed)
        return self._start(f"torch-perturbed-{seed}", config).recording(must=False)

    def _kinked(self, sign: int) -> Recording:
        side = f"torch-kinks-{'up' if sign > 0 else 'down'}"
        return self._start(side, replace(self._config(side), kinks=sign)).recording(must=False)

    def _in(self, mode: Mode, side: str) -> RunConfig:
        return replace(self._config(side, dtype=mode.dtype), products=mode.products)

    def _must_have_run(self, run: Recording, code: str, path: Path, side: str, mode: str) -> None:
        if run.error and not run.losses:
            raise ParityError(code, f"{path}, {mode}: {self.told(side, run)}")

    def _must_have_stepped(self, ours: Recording) -> None:
        if ours.error_kind and ours.error_kind.startswith("PAR") and not ours.losses:
            raise ParityError(ours.error_kind, f"{self.rewritten}: {ours.error}")
        if not ours.losses:
            if ours.error:
                raise ParityError("PAR206", f"{self.rewritten}: {self.told('jax', ours)}")
            text = "no jax.value_and_grad or jax.grad was reached, so there is nothing to compare"
            raise ParityError("PAR207", f"{self.rewritten}: {text}")

    def _recorded(self, side: str) -> str:
        return str(self.base / side / "recording")

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
            out=self._recorded(side),
            argv=self.argv,
            steps=self.steps,
            prelude=str(self.prelude.resolve()) if self.prelude else None,
            threads=threads,
            perturb=perturb,
            dtype=dtype,
            by_inputs=self.described.by_inputs,
            manifest=str(self.manifest.resolve()) if ours else None,
            torch_recording=self._recorded(twin) if ours else None,
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

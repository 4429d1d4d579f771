"""`python -m tests.bench [SAMPLE...] [--rounds N] [--steps N]`: prints step times and ratios."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.statistics import Spread, ratio, step_time

ROOT = Path(__file__).resolve().parents[2]
# Longer than an epoch of any sample whose last batch is a short one: both shapes are compiled before the timing starts.
WARM_UP_STEPS = 30
# Run and dropped when a contender gets its turn: the one before it has left the caches full of its own data.
LEAD_IN_STEPS = 3


@dataclass(frozen=True)
class Sample:
    """What to run for one sample. `arguments` make its scripts long enough; `hand_written` and `script` name files
    beside this: the yardstick, and a script that is no sample and is rewritten here."""

    name: str
    arguments: tuple[str, ...] = ()
    hand_written: str | None = None
    script: str | None = None


SAMPLES = (
    Sample("mlp"),
    Sample("mnist_cnn", ("--epochs", "1000"), "hand_written_cnn.py"),
    Sample("introyt"),
    Sample("char_gpt", ("--max-steps", "100000", "--eval-interval", "100000"), "hand_written_gpt.py"),
    Sample("lstm", (), "hand_written_lstm.py", "lstm.py"),
)


class Contender:
    """A script in a child process that runs steps when told to."""

    def __init__(
        self, label: str, kind: str, script: Path, arguments: tuple[str, ...], core: int, folder: Path
    ) -> None:
        self.label = label
        self._script = script
        self._log = (folder / f"{script.stem}-{kind}.log").open("w+")
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
        command = [sys.executable, "-m", "tests.bench.child", kind, str(core), str(script), *arguments]
        self._child = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **one_thread, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, steps: int) -> list[float]:
        """CPU seconds of each of the next steps. Raises RuntimeError, with the end of its log, when the child died."""
        assert self._child.stdin and self._child.stdout
        with contextlib.suppress(BrokenPipeError):
            print(steps, file=self._child.stdin, flush=True)
        if answer := self._child.stdout.readline():
            return json.loads(answer)
        self._child.wait()
        self._log.seek(0)
        raise RuntimeError(f"{self.label} ({self._script}) died:\n" + self._log.read()[-2000:])

    def close(self) -> None:
        self._child.kill()
        with contextlib.suppress(BrokenPipeError):  # a command that the child did not live to read
            self._child.communicate()
        self._log.close()


def contenders(sample: Sample, core: int, folder: Path, console: Console) -> list[Contender]:
    """Those that can run here, in the order of the table; what cannot is said on the console."""
    home = ROOT / "samples" / sample.name
    original, rewritten = home / "train.py", home / "train_jax.py"
    if sample.script:
        original, rewritten = Path(__file__).with_name(sample.script), folder / f"{sample.name}_jax.py"
        command = [sys.executable, "-m", "migrate", "rewrite", str(original), "-o", str(rewritten)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    found = [("torch eager", "torch", original, sample.arguments)]
    if shutil.which("g++") or shutil.which("clang++"):
        found.append(("torch.compile", "compile", original, sample.arguments))
    else:
        console.print(f"{sample.name}: torch.compile left out, it needs a C++ compiler (g++ or clang++) on the path")
    if rewritten.exists():
        found.append(("rewritten", "jax", rewritten, sample.arguments))
    else:
        console.print(f"{sample.name}: no rewritten script yet ({rewritten.relative_to(ROOT)})")
    if sample.hand_written:
        found.append(("hand-written Flax", "jax", Path(__file__).with_name(sample.hand_written), ()))
    return [Contender(label, kind, script, arguments, core, folder) for label, kind, script, arguments in found]


def measure(sample: Sample, rounds: int, steps: int, core: int, console: Console) -> dict[str, list[list[float]]]:
    """Label → rounds → CPU seconds of each step. A round runs every contender once, each round begins with another."""
    with tempfile.TemporaryDirectory() as folder:
        entered: list[Contender] = []
        try:
            entered = contenders(sample, core, Path(folder), console)
            for contender in entered:
                contender.run(WARM_UP_STEPS)
            times: dict[str, list[list[float]]] = {contender.label: [] for contender in entered}
            for number in range(rounds):
                first = number % len(entered)
                for contender in entered[first:] + entered[:first]:
                    times[contender.label].append(contender.run(LEAD_IN_STEPS + steps)[LEAD_IN_STEPS:])
            return times
        finally:
            for contender in entered:
                contender.close()


def as_text(spread: Spread, digits: int) -> str:
    return f"{spread.median:.{digits}f} ({spread.least:.{digits}f} to {spread.greatest:.{digits}f})"


def table(name: str, times: dict[str, list[list[float]]]) -> Table:
    baselines = [label for label in ("torch eager", "torch.compile", "hand-written Flax") if label in times]
    result = Table("", "ms per step", *(f"times {label}" for label in baselines), title=name, title_justify="left")
    for label, rounds in times.items():
        ratios = [as_text(ratio(rounds, times[baseline]), 2) if baseline != label else "1" for baseline in baselines]
        result.add_row(label, as_text(step_time(rounds).scaled(1000), 3), *ratios)
    return result


def main() -> int:
    names = [sample.name for sample in SAMPLES]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("sample", nargs="*", metavar="SAMPLE", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default: 10)")
    parser.add_argument("--steps", type=int, default=20, help="steps a round (default: 20)")
    args = parser.parse_args()
    if unknown := sorted(set(args.sample) - set(names)):
        parser.error(f"no such sample: {', '.join(unknown)} (there are {', '.join(names)})")
    if args.rounds < 1 or args.steps < 1:
        parser.error("--rounds and --steps must be at least 1")

    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    for sample in SAMPLES:
        if args.sample and sample.name not in args.sample:
            continue
        try:
            console.print(table(sample.name, measure(sample, args.rounds, args.steps, core, console)))
        except RuntimeError as error:
            console.print(str(error), markup=False)
            return 2
    console.print(
        f"CPU time of one training step (forward, backward, update; no data loading), one thread on core {core}.\n"
        f"Median (least to greatest) of {args.rounds} interleaved rounds of {args.steps} steps; below 1 is faster.\n"
        "A script entered against itself came out at 0.97 to 1.00: differences of a few percent mean nothing."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

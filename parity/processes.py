"""The processes that run either side: started apart, ended whole, and what they leave behind read."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parity.codes import ParityError
from parity.record import Recording

FULL = 2**20  # bytes left on a disk that is as good as full: the smallest recording is larger
PACKAGES = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Child:
    side: str
    process: subprocess.Popen[bytes]
    folder: Path
    timeout: float

    def end(self) -> None:
        """No process outlives its comparison."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def recording(self, *, must: bool = True) -> Recording:
        """Wait for the end and read what was recorded; an empty recording where that is allowed and there is none."""
        try:
            self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            if must:
                raise ParityError("PAR209", f"the {self.side} run was ended after {self.timeout:.0f} s") from None
        finally:
            self.end()
        if (self.folder / "recording" / "recording.json").is_file():
            return Recording.load(self.folder / "recording")
        if not must:
            return Recording(error="no recording")
        if shutil.disk_usage(self.folder).free < FULL:
            raise ParityError(
                "PAR213", f"{self.folder}: no space left for the {self.side} run (TMPDIR may name another)"
            )
        tail = (self.folder / "stderr.txt").read_text(errors="replace").strip().splitlines()[-15:]
        text = f"the {self.side} run ended with status {self.process.returncode}"
        raise ParityError("PAR210", "\n".join([text, *tail]))


@contextmanager
def unwinding() -> Iterator[None]:
    """A job that is cancelled (SIGTERM) unwinds like one that is interrupted, so that what it started ends with it."""
    handled = threading.current_thread() is not threading.main_thread()
    if handled or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def start(
    side: str, command: Sequence[str], folder: Path, cwd: str, variables: Mapping[str, str], timeout: float
) -> Child:
    """Raises ParityError PAR211 where the interpreter cannot be started."""
    with open(folder / "stderr.txt", "wb") as err:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # a script may print for hours
                stderr=err,
                start_new_session=True,  # so that what it starts ends with it
            )
        except OSError as error:
            raise ParityError("PAR211", f"{command[0]}: {error.strerror}: no interpreter for this side") from None
    return Child(side, process, folder, timeout)


@dataclass(frozen=True)
class Running:
    """A module of this package that runs in a process of its own and prints what it finds."""

    what: str  # as messages call it
    process: subprocess.Popen[str]

    def output(self, timeout: float) -> str:
        """Wait for the end; what it printed. Raises ParityError PAR209 (too long) and PAR210 (it failed)."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ParityError("PAR209", f"{self.what}: ended after {timeout:.0f} s") from None
        if self.process.returncode:
            tail = err.strip().splitlines()[-8:]
            raise ParityError("PAR210", "\n".join([f"{self.what}: status {self.process.returncode}", *tail]))
        return out


@contextmanager
def running(modules: Mapping[str, Sequence[str]]) -> Iterator[list[Running]]:
    """Start modules at once, each given as what it is called and its command after `python -m`; none outlives the
    block."""
    started: list[Running] = []
    try:
        with unwinding():
            for what, command in modules.items():
                arguments = [sys.executable, "-m", *command]
                process = subprocess.Popen(
                    arguments, env=environment(1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                started.append(Running(what, process))
            yield started
    finally:
        for child in started:
            if child.process.poll() is None:
                child.process.kill()
                child.process.wait()


def environment(threads: int, extra: Mapping[str, str] | None = None, packages: Path = PACKAGES) -> dict[str, str]:
    """One thread, no accelerator unless JAX_PLATFORMS says so, no display, a fixed order of sets.

    Where there are more threads they sleep while they wait: a busy wait costs five times the run on a shared core.
    Flags of XLA in `extra` are added to those there are. `packages` is where the child finds this toolkit.
    """
    paths = [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    extra = dict(extra or {})
    return {
        "JAX_PLATFORMS": "cpu",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "MPLBACKEND": "Agg",
        **extra,
        "XLA_FLAGS": " ".join(filter(None, [os.environ.get("XLA_FLAGS"), flags, extra.get("XLA_FLAGS")])),
    }


def packages_alone(folder: Path) -> Path:
    """A folder with this toolkit alone, for an interpreter that has packages of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("migrate", "weight_port", "parity"):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(PACKAGES / name, target_is_directory=True)
    return folder

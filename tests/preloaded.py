"""The runs of a comparison in copies of one process that has imported the frameworks: that is half of a short run.

A process of its own is `processes.start`, which the tests of bad input and of the command line go through.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jax._src.interpreters import mlir

from parity import processes
from tests.compiling import SharedContext, compile_as, soon_compiling

STATUS = "status"  # the file in the folder of a run that its end is told by


@dataclass
class Forked:
    """What the tests need of a Popen."""

    pid: int
    status: Path
    returncode: int | None = None

    def wait(self, timeout: float = 600.0) -> int:
        until = time.monotonic() + timeout
        while not self.status.is_file():
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a forked run", timeout)
            time.sleep(0.01)
        self.returncode = int(self.status.read_text())
        return self.returncode


class Server:
    """Forks when asked; the requests are lines of JSON."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.preloaded"]
        self.process = subprocess.Popen(
            command, env=processes.environment(1), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(
        self, side: str, command: Sequence[str], folder: Path, cwd: str, variables: Mapping[str, str], timeout: float
    ) -> processes.Child:
        (folder / STATUS).unlink(missing_ok=True)
        request: dict[str, Any] = {"module": command[2], "config": command[3], "folder": str(folder), "cwd": cwd}
        request |= {"variables": dict(variables)}
        assert self.process.stdin and self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        forked: Any = Forked(int(self.process.stdout.readline()), folder / STATUS)
        return processes.Child(side, forked, folder, timeout)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def started(server: Server, *, soon: bool) -> Iterator[None]:
    """`processes.start` by that server, where nothing is asked of it that is settled before an import. With `soon`
    JAX's programs are compiled as tests compile theirs."""
    original = processes.start

    def start(side: str, command: Sequence[str], folder: Path, cwd: str, variables: Any, timeout: float) -> Any:
        apart = command[0] != sys.executable or "JAX_DISABLE_JIT" in variables
        variables = soon_compiling(variables) if soon else variables
        return (original if apart else server.start)(side, command, folder, cwd, variables, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "start", start)
        yield


def serve() -> None:
    import optax  # noqa: F401  # scripts import it
    import torch._dynamo  # noqa: F401  # torch's optimizers do, and that takes longer than a short run
    from sklearn import datasets  # noqa: F401  # so do samples
    from torch.utils import data  # noqa: F401

    from parity import run_jax, run_torch

    mains = {"parity.run_torch": run_torch.main, "parity.run_jax": run_jax.main}
    running: dict[int, Path] = {}
    gc.freeze()  # no copy goes through the frameworks in search of garbage
    pending = b""
    while True:
        with_status(running)
        if not select.select([0], [], [], 0.01 if running else None)[0]:
            continue
        read = os.read(0, 65536)
        if not read:
            return
        pending += read
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            request = json.loads(line)
            pid = os.fork()
            if not pid:
                _run(request, mains[request["module"]])
            running[pid] = Path(request["folder"]) / STATUS
            print(pid, flush=True)


def with_status(running: dict[int, Path]) -> None:
    """Tells of each process that has ended."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            told = running.pop(pid)
            told.with_suffix(".part").write_text(str(os.waitstatus_to_exitcode(status)))
            told.with_suffix(".part").rename(told)


def _run(request: dict[str, Any], main: Any) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    said = os.open(Path(request["folder"]) / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, file in enumerate((nothing, nothing, said)):
        os.dup2(file, stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["variables"])
    compile_as(request["variables"])  # were read at the import
    mlir.make_ir_context = SharedContext(mlir.make_ir_context)
    try:
        os._exit(main(request["config"]))
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    serve()

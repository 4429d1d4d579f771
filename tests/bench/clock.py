"""CPU time per training step, measured inside a script that runs unmodified."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TextIO


class Stop(BaseException):
    """Unwinds the script. A BaseException, so that no `except Exception` of the script's own swallows it."""


class StepClock:
    """Times windows of the running script and pauses it after as many as were asked for.

    A window opens at the first `begin()` and closes at `end()`; what the script does outside (loading data, printing,
    evaluating) is not timed. Commands come as lines: a number of steps to run, or `quit`; each answer is one JSON line
    with the seconds of CPU time, summed over the process's threads, of the steps run since the last answer.
    """

    def __init__(self, commands: TextIO, answers: TextIO, cpu_time: Callable[[], float] = time.process_time) -> None:
        self._commands = commands
        self._answers = answers
        self._cpu_time = cpu_time
        self._opened: float | None = None
        self._times: list[float] = []
        self._wanted = 0

    def begin(self) -> None:
        """Opens a window, unless one is open. Waits for a command first when the steps asked for are done."""
        if self._opened is not None:
            return
        if not self._times:
            self._wanted = self._next_command()
        self._opened = self._cpu_time()

    def end(self) -> None:
        """Closes the window; after the last step asked for, answers. Without an open window, does nothing."""
        if self._opened is None:
            return
        self._times.append(self._cpu_time() - self._opened)
        self._opened = None
        if len(self._times) == self._wanted:
            self._answers.write(json.dumps(self._times) + "\n")
            self._answers.flush()
            self._times = []

    def _next_command(self) -> int:
        line = self._commands.readline().strip()
        if line in ("", "quit"):
            raise Stop
        return int(line)

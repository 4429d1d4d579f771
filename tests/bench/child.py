"""One contender, in a process of its own: `python -m tests.bench.child {torch,compile,jax} CORE SCRIPT [ARGS...]`.

Reads commands from standard input and answers on standard output (see `clock.StepClock`); the script's own prints are
dropped. Between commands the process sleeps, so contenders can take turns on one core.
"""

from __future__ import annotations

import os
import runpy
import sys
import warnings


def main() -> None:
    kind, core, script, *arguments = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):  # Linux only
        os.sched_setaffinity(0, {int(core)})
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    warnings.simplefilter("ignore")

    from tests.bench.clock import StepClock, Stop

    clock = StepClock(sys.stdin, answers)
    if kind == "jax":
        from tests.bench import jax_hooks

        jax_hooks.install(clock)
    else:
        from tests.bench import torch_hooks

        torch_hooks.install(clock, compiled=kind == "compile")
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except Stop:
        return
    sys.exit(f"{script} ended before the benchmark had all its steps: ask for fewer (--rounds, --steps)")


if __name__ == "__main__":
    main()

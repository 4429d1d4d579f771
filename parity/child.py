"""Running a user's script inside a child process: seeds, arguments, and what becomes of its end."""

from __future__ import annotations

import os
import random
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from migrate.files.notebook import SUFFIX, read_notebook
from migrate.manifest import ManifestError
from parity.codes import ParityError
from parity.record import Recording, RunConfig, Stop, traceback_tail


def patch(owner: Any, name: str, value: Any) -> None:
    """Put `value` in the place of an attribute of a framework, for the rest of this process."""
    setattr(owner, name, value)


def as_script(path: str) -> str:
    """The script to run: of a notebook the code of all cells, in a file beside it. What IPython alone reads does
    nothing."""
    notebook = Path(path)
    if notebook.suffix != SUFFIX:
        return path
    script = notebook.with_name(f"{notebook.stem}_cells.py")
    script.write_text(read_notebook(path, notebook.read_text(encoding="utf-8")).text, encoding="utf-8")
    return str(script)


def run_script(config: RunConfig, recording: Recording) -> None:
    """Run prelude and script as `__main__` would; whatever ends them is written into the recording."""
    random.seed(config.seed)
    np.random.seed(config.seed)
    os.chdir(config.cwd)
    script = as_script(config.script)
    sys.path[0] = os.path.dirname(script)
    if config.root is not None and config.root != sys.path[0]:
        sys.path.insert(1, config.root)
    sys.argv = [script, *config.argv]
    try:
        if config.prelude:
            runpy.run_path(config.prelude, run_name="__prelude__")
        runpy.run_path(script, run_name="__main__")
    except Stop:
        pass
    except SystemExit as stop:
        if stop.code not in (None, 0):
            recording.error_kind = "SystemExit"
            recording.error = f"the script ended by sys.exit({stop.code!r})"
    except (ParityError, ManifestError) as error:
        recording.error_kind = error.code if isinstance(error, ParityError) else "PAR211"
        recording.error = error.message if isinstance(error, ParityError) else str(error)
    except BaseException as error:
        recording.error_kind = type(error).__name__
        recording.error = traceback_tail(error, script)

"""What `from MODULE import *` binds, of modules whose names the rewriter knows: torch's as they are in
`starred_names.json`, which `python -m tests.meta.starred_names` writes, and some of Python's own."""

from __future__ import annotations

import functools
import importlib
import json
from pathlib import Path

FILE = Path(__file__).with_name("starred_names.json")
# Of Python's library, what is asked about by name: draws, clocks, queues. All of it is cheap to import.
PYTHON = ("collections", "copy", "functools", "itertools", "math", "random", "time")


@functools.cache
def names_of(module: str) -> frozenset[str]:
    """The names that a star takes from a module; none where they are not known."""
    if module in PYTHON:
        found = importlib.import_module(module)
        public = getattr(found, "__all__", None) or [name for name in vars(found) if not name.startswith("_")]
        return frozenset(public)
    return frozenset(_of_torch().get(module, "").split())


@functools.cache
def _of_torch() -> dict[str, str]:
    return json.loads(FILE.read_text("utf-8"))

"""How often Python looks for garbage while syntax trees are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OBJECTS = 50_000  # made between two looks


@contextlib.contextmanager
def seldom_searched() -> Iterator[None]:
    """Nodes are made by the hundred thousand and stand in no circles: what is no longer used goes by itself. Python's
    search for garbage in circles would go through them again and again, a sixth of the time of a conversion."""
    before = gc.get_threshold()
    if before[0]:  # 0: never
        gc.set_threshold(max(before[0], _OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)

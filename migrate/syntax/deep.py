"""A stack deep enough for code as deeply nested as people and generators write it.

LibCST's visitors take several frames for each level of a tree, and its parser recurses in native code: a thousand
terms in a sum would end Python's own stack. A larger one can only be had by a thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_STACK = 512 * 1024 * 1024  # bytes of address space: memory is only taken as it is used
_FRAMES = 60_000  # of Python, of which the stack holds several times as many
_here = threading.local()


def deeply(work: Callable[[], Result]) -> Result:
    """Does some work on a deep stack: what it returns, or what it raises."""
    if getattr(_here, "deep", False):
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        _here.deep = True
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    try:
        sys.setrecursionlimit(max(limit, _FRAMES))
        thread = threading.Thread(target=run, name="migrate", daemon=True)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]

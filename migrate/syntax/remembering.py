"""What is worked out of a node of a syntax tree, once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import libcst as cst

AnyNode = TypeVar("AnyNode", bound=cst.CSTNode)
Result = TypeVar("Result")

# As many pieces of code as the largest projects have. With fewer, each round of the lowering would find that what the
# one before it has worked out is forgotten by now.
_REMEMBERED = 200_000
_forgetting: list[Callable[[], None]] = []


def remembered(function: Callable[[AnyNode], Result]) -> Callable[[AnyNode], Result]:
    """What a function says of a node, worked out once while a project is converted: nodes do not change, and the same
    are asked about again and again."""
    kept = functools.lru_cache(_REMEMBERED)(function)
    _forgetting.append(kept.cache_clear)
    return kept


def forget() -> None:
    """Lets go of all nodes that something is remembered of: no other project has them."""
    for clear in _forgetting:
        clear()

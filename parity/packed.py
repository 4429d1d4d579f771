"""The forms in which the rewritten side may hold what a module of torch gives.

Channels may be last. The rows of a packed sequence, one after another in torch, are a padded array, time first, with
the lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parity.record import Tensors

LENGTHS = -1  # what stands in the name of an output for its number where it is the lengths of a packed sequence


def is_packed(result: Any) -> bool:
    """Whether a module gives what may be a packed sequence or its elements."""
    if not isinstance(result, tuple) or len(result) != 2 or not all(hasattr(part, "dtype") for part in result):
        return False
    x, lengths = result
    return x.ndim > 1 and np.issubdtype(lengths.dtype, np.integer) and lengths.shape == x.shape[1:2]


def forms(tensors: Tensors, key: str) -> list[np.ndarray]:
    """What an output may be in torch."""
    value, lengths = tensors[key], tensors.get(f"{key.rpartition('|')[0]}|{LENGTHS}")
    return [*layouts(value), *([] if lengths is None else [_rows(value, lengths)])]


def _rows(padded: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Step by step, the longest sequences first."""
    order = np.argsort(-lengths, kind="stable")
    return padded[:, order][np.arange(len(padded))[:, None] < lengths[order]]


def layouts(value: np.ndarray) -> list[np.ndarray]:
    """The ways a rewritten layer may hold what torch holds channel-first."""
    return [value, np.moveaxis(value, -1, 1)] if value.ndim > 2 else [value]


def whole_count(tensors: Tensors) -> int:
    """How many outputs of a whole model there are."""
    return sum(key.startswith("|") and not key.endswith(f"|{LENGTHS}") for key in tensors)

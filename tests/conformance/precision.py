"""Both frameworks at one precision, and back to what they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import torch


@contextmanager
def floats_are(dtype: str) -> Iterator[str]:
    """ "float32" or "float64" as the default type of floats in both frameworks."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with jax.enable_x64(dtype == "float64"):
            yield dtype
    finally:
        torch.set_default_dtype(before)

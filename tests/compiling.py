"""Tests compile many small programs and run each once or twice: compiling is most of what they take."""

from __future__ import annotations

import os
from collections.abc import Iterator

import jax
import pytest

# Kernels by LLVM alone: the same programs in half the time that lowering them through MLIR takes.
_FLAG = "--xla_cpu_use_fusion_emitters=false"


def compile_by_llvm_alone() -> None:
    """In this process; what it starts compiles as users do."""
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = " ".join(filter(None, [before, _FLAG]))
    jax.devices()  # reads the flags
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before


@pytest.fixture(autouse=True)
def soon_compiled() -> Iterator[None]:
    """XLA's passes that make programs faster, not other ones, take longer here than the programs do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)

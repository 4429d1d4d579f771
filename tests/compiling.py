"""Tests compile many small programs and run each once or twice: compiling is most of what they take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import jax
import pytest

# Kernels by LLVM alone: the same programs in half the time that lowering them through MLIR takes.
_FLAG = "--xla_cpu_use_fusion_emitters=false"
# XLA's passes that make programs faster, not other ones, take longer here than the programs do.
DISABLED = "JAX_DISABLE_MOST_OPTIMIZATIONS"


def soon_compiling(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that is to compile soon rather than well."""
    flags = " ".join(filter(None, [variables.get("XLA_FLAGS"), _FLAG]))
    return {**variables, "XLA_FLAGS": flags, DISABLED: "1"}


def compile_by_llvm_alone() -> None:
    """In this process; what it starts compiles as users do."""
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = soon_compiling(os.environ)["XLA_FLAGS"]
    jax.devices()  # reads the flags
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before


@pytest.fixture(autouse=True)
def soon_compiled() -> Iterator[None]:
    jax.config.update(DISABLED.lower(), True)
    yield
    jax.config.update(DISABLED.lower(), False)

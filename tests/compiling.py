"""Tests compile many small programs and run each once or twice: compiling is most of what they take."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import pytest
from jax._src.interpreters import mlir

# Kernels by LLVM alone: the same programs in half the time that lowering them through MLIR takes. Each program in one
# piece: a tenth of the time goes into splitting small ones for many threads.
_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
# XLA's passes that make programs faster, not other ones, take longer here than the programs do; those that share a
# program among devices an eighth of the time, where there is one device.
_SETTINGS = {"JAX_DISABLE_MOST_OPTIMIZATIONS": True, "JAX_USE_SHARDY_PARTITIONER": False}
_CACHE = "JAX_COMPILATION_CACHE_DIR"
# A context of MLIR has room for what its programs have said; after so many the next programs get a fresh one.
_PROGRAMS = 200


def soon_compiling(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that is to compile soon rather than well."""
    flags = " ".join(filter(None, [variables.get("XLA_FLAGS"), _FLAGS]))
    return {**variables, "XLA_FLAGS": flags, **{name: str(int(value)) for name, value in _SETTINGS.items()}}


def compile_as(variables: Mapping[str, str]) -> None:
    """From now on in this process: as `soon_compiling` says where it has made the variables, else as users do."""
    soon = _SETTINGS.keys() <= variables.keys()
    for name, value in _SETTINGS.items():
        jax.config.update(name.lower(), value is soon)


def compile_by_llvm_alone() -> None:
    """In this process; what it starts compiles as users do."""
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = soon_compiling(os.environ)["XLA_FLAGS"]
    jax.devices()  # reads the flags
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before


@contextmanager
def programs_are_shared() -> Iterator[None]:
    """What is started while the tests run takes the programs that others have compiled: a short run spends most of its
    time on small ones that are alike (JAX's persistent cache). In this process they seldom are."""
    variables = {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    jax.config.update("jax_enable_compilation_cache", False)
    if _CACHE in os.environ:  # a worker, whose controller has seen to it
        yield
        return
    with tempfile.TemporaryDirectory(prefix="programs-") as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in {**variables, _CACHE: folder}.items():
            patch.setenv(name, value)
        yield


class SharedContext:
    """`make_ir_context`, once for many programs: JAX makes one for each, and that takes a fifth of a small program."""

    def __init__(self, make: Any) -> None:
        self.make, self.context, self.programs = make, None, 0

    def __call__(self) -> Any:
        if self.programs % _PROGRAMS == 0:
            self.context = self.make()
        self.programs += 1
        return self.context


_shared = SharedContext(mlir.make_ir_context)


@pytest.fixture(autouse=True)
def soon_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(mlir, "make_ir_context", _shared)
    compile_as(soon_compiling({}))
    yield
    compile_as({})

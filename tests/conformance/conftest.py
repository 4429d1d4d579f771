"""Fixtures: the precision of both frameworks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.compiling import compile_by_llvm_alone, soon_compiled
from tests.conformance.precision import floats_are

__all__ = ["float64", "one_thread", "precision", "soon_compiled"]

compile_by_llvm_alone()


@pytest.fixture(params=["float64", "float32"])
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs at both precisions."""
    with floats_are(request.param) as dtype:
        yield dtype


@pytest.fixture
def float64() -> Iterator[None]:
    with floats_are("float64"):
        yield


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)

"""Fixtures: the precision of both frameworks."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest
import torch

from tests.conformance.precision import floats_are


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


@pytest.fixture(autouse=True)
def soon_compiled() -> Iterator[None]:
    """XLA's passes that make programs faster, not other ones, take longer here than the programs do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)

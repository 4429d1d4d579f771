"""Both frameworks at one precision, and back to what they were."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest
import torch


@pytest.fixture(params=["float64", "float32"])
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    """The default type of floats in both frameworks during a test."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, request.param))
    try:
        with jax.enable_x64(request.param == "float64"):
            yield request.param
    finally:
        torch.set_default_dtype(before)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        with jax.enable_x64(True):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)

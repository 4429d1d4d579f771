"""Fixtures of several folders of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import preloaded


@pytest.fixture(scope="session")
def frameworks() -> Iterator[preloaded.Server]:
    server = preloaded.Server()
    yield server
    server.end()


@pytest.fixture(scope="module")
def runs_are_forked(frameworks: preloaded.Server) -> Iterator[None]:
    """The runs of comparisons are copies of a process that has imported torch and JAX."""
    with preloaded.started(frameworks):
        yield

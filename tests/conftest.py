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
    """The runs of comparisons are copies of a process that has imported torch and JAX, and compile soon."""
    with preloaded.started(frameworks, soon=True):
        yield


@pytest.fixture(scope="module")
def runs_compile_as_users_do(frameworks: preloaded.Server) -> Iterator[None]:
    """Likewise copies, of programs that XLA optimizes."""
    with preloaded.started(frameworks, soon=False):
        yield

"""Fixtures of several folders of tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests import preloaded
from tests.compiling import programs_are_shared


def pytest_configure(config: pytest.Config) -> None:
    shared = programs_are_shared()
    shared.__enter__()
    config.add_cleanup(lambda: shared.__exit__(None, None, None))


# Their first tests take half a minute and more.
_LONG = ("test_families.py", "test_selftest.py", "test_gate.py", "test_samples.py", "test_operations.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A worker that meets a long test last keeps the other one waiting."""
    items.sort(key=lambda item: item.path.name not in _LONG)


def pytest_collection_finish() -> None:
    """torch, JAX, LibCST and the tests themselves stay: going through them in search of garbage, again and again, is a
    quarter of the time."""
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)


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

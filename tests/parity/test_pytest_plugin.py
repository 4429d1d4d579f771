"""The `assert_parity` fixture, in tests of a project that uses it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

FUNCTIONS = """
import jax
import jax.numpy as jnp
import numpy as np
import torch

x = np.random.RandomState(0).standard_normal((64, 32))
w = np.random.RandomState(1).standard_normal((16, 32))


def theirs(x, w):
    return {"h": torch.nn.functional.gelu(x @ w.T)}


def test_right(assert_parity):
    assert_parity(theirs, lambda x, w: {"h": jax.nn.gelu(x @ w.T, approximate=False)}, x, w)


def test_wrong(assert_parity):
    assert_parity(theirs, lambda x, w: {"h": jax.nn.gelu(x @ w.T)}, x, w)


def test_another_name(assert_parity):
    assert_parity(theirs, lambda x, w: {"y": jax.nn.gelu(x @ w.T, approximate=False)}, x, w)


def test_tensors(assert_parity):
    budget = {"absolute": 1e-3, "owner": "ada", "reason": "read from a log of three digits"}
    assert_parity.tensors(torch.ones(3), jnp.ones(3) + 1e-4, budgets=[budget])


def test_tensors_without_an_oracle(assert_parity):
    assert_parity.tensors(torch.ones(3), jnp.ones(3))


def test_a_missing_script(assert_parity):
    assert_parity.script("none.py")
"""


def test_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FUNCTIONS)
    result = pytester.runpytest_inprocess()  # which finds the plugin as any project does: it is installed
    result.assert_outcomes(passed=2, failed=4)
    result.stdout.fnmatch_lines_random(
        [
            "*2 beyond the budget:*",
            "h: float64: relative difference*",
            "*h has no counterpart in JAX*",
            "*output has no float64 oracle; give it an absolute budget*",
            "*none.py: no such script*",
        ]
    )


def test_pytest_finds_it() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"migrate-parity": "parity.pytest_plugin"}

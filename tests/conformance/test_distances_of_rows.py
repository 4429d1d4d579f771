"""Distances of the rows of one array: that of a row to itself is 0, and has no gradient, however XLA computes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import torch

from migrate.snippets import cdist as snippet
from migrate.snippets.cdist import cdist

PROGRAM = """
import jax, numpy as np

rng = np.random.default_rng(0)
weights, x = rng.normal(size=(6, 8)).astype("f"), rng.normal(size=(8, 6)).astype("f")

def distances(weights):
    h = x @ weights
    unit = h / jnp.linalg.norm(h, axis=-1, keepdims=True)
    return cdist(unit, unit)

print(float(jnp.diagonal(jax.jit(distances)(weights)).max()))
"""


def test_a_row_is_where_it_is() -> None:
    """As users compile it: XLA computes the rows for both sides of the difference, and rounds them differently."""
    program = Path(snippet.__file__).read_text() + PROGRAM
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    variables["JAX_PLATFORMS"] = "cpu"
    run = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    assert float(run.stdout) == 0


def test_what_is_no_number_stays_that() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 0.0], [1.0, 2.0]], np.float32)
    for p in (1, 2):
        found, wanted = cdist(jnp.array(x), jnp.array(x), p), torch.cdist(torch.tensor(x), torch.tensor(x), p=p)
        np.testing.assert_array_equal(found, wanted.numpy())

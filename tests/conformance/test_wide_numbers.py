"""Whole numbers that take more than 32 bits, which is what JAX has for them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

BESIDE_FLOATS = """import torch

x = torch.tensor([0.5, -2.0, 3.0])
mask = x > 0
pad = -2**32 + 1
found = [
    x.masked_fill(mask, pad),
    x * 2654435761,
    -4294967296 - x,
    (x * 1e10 < 2**34).float(),
    torch.where(mask, x, pad),
    torch.full_like(x, -(1 << 33)),
    torch.full((2,), 2**31 - 1).float(),
    x - 2**31,
]
"""


def test_they_are_floats_beside_floats() -> None:
    theirs, ours = rewritten.both(BESIDE_FLOATS)
    for their, our in zip(theirs["found"], ours["found"], strict=True):
        np.testing.assert_array_equal(np.asarray(our), their.numpy())


@pytest.mark.parametrize("line", ["x * 2654435761", "x < 2**40", "torch.full((2,), 2**31)", "x.clamp(max=1 << 35)"])
def test_they_are_refused_beside_integers(line: str) -> None:
    report = rewritten.conversion(f"import torch\n\nx = torch.arange(3)\nprint({line})\n").report
    assert [(found.code, "32 bits" in found.message) for found in report.diagnostics] == [("MIG302", True)]


def test_python_computes_with_its_own() -> None:
    text = "import torch\n\nseed = (7 * 2**40 + 5) % 97\nx = torch.ones(2) * seed\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_array_equal(np.asarray(ours["x"]), theirs["x"].numpy())

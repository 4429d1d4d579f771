"""`log(1 - p + 1e-8)` is finite where p is 1, under jit too: XLA would add up the numbers first."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten

MODEL = """import torch
import torch.nn as nn

EPS = 1e-8


def log(x):
    return torch.log(x + EPS)


class M(nn.Module):
    def forward(self, p):
        q = 1 - p
        return VALUE
"""
KEPT = [
    "torch.log(1 - p + 1e-8)", "torch.log((1.0 - p) + EPS)", "torch.log(1e-8 + (1 - p))", "torch.log(q + EPS)",
    "log(1 - p)", "(p - 1 + 1e-9) * 1e6", "torch.log(1 - (p - 1e-12) + 1e-8)", "(2 - p - 1 + 1e-8).log()",
]  # fmt: skip
AS_THEY_ARE = ["torch.log(p + 1e-8)", "1 - p + 0.5", "torch.log(p * 2 + EPS)", "p + 1 + 1"]


@pytest.mark.parametrize("value", KEPT)
def test_what_xla_would_swallow(value: str) -> None:
    source = MODEL.replace("VALUE", value)
    made = rewritten.clean(source)
    assert made.text.count("jax.lax.optimization_barrier(") == 1
    p = np.array([1.0, 0.5, 0.0, 1 - 1e-7], np.float32)
    x = torch.tensor(p, requires_grad=True)
    wanted = rewritten.executed(source)["M"]()(x)
    wanted.sum().backward()
    ours = rewritten.executed(made.text)["M"]()
    found = jax.jit(lambda p: ours.apply({}, p))(p)
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-6)
    slope = jax.jit(jax.grad(lambda p: ours.apply({}, p).sum()))(p)
    np.testing.assert_allclose(slope, x.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("value", AS_THEY_ARE)
def test_other_sums_are_as_they_are(value: str) -> None:
    assert "barrier" not in rewritten.clean(MODEL.replace("VALUE", value)).text

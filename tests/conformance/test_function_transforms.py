"""`torch.func`, `torch.autograd.functional` and `torch.utils.checkpoint` against JAX's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.conformance import rewritten

# torch's forward mode uses its own deprecated compiler
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

HEAD = """import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def f(x):
    return (x ** 3).clamp(min=-0.5).sum()


def g(x, y):
    return torch.where(x > 0, x * y, y).unsqueeze(0)


def run(x, y):
    return EXPRESSION


print(run(torch.ones(3, 3), torch.ones(3, 3)))
"""
EXPRESSIONS = (
    "grad(f)(x)",
    "grad(lambda a, b: (a * b ** 2).sum(), argnums=1)(x, y).unsqueeze(0)",
    "vmap(f)(x)",
    "vmap(g, in_dims=(0, None), out_dims=1)(x, y)",
    "torch.vmap(grad(f))(x).flatten()",
    "jacrev(g)(x, y)",
    "jacfwd(f)(x)",
    "hessian(f)(x)",
    "vjp(f, x)[1](torch.tensor(2.0))[0]",
    "jvp(f, (x,), (y,))[1]",
    "torch.autograd.functional.jacobian(f, x)",
    "torch.autograd.functional.hessian(f, x)",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values(expression: str) -> None:
    source = HEAD.replace("EXPRESSION", expression)
    x, y = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
    expected = rewritten.executed(source)["run"](torch.tensor(x), torch.tensor(y))
    found = rewritten.executed(rewritten.clean(source).text)["run"](jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(np.asarray(found), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "expression",
    ["vmap(f, chunk_size=2)(x)", 'vmap(f, randomness="different")(x)', "vmap(torch.sum)(x)", "vjp(f, x, has_aux=True)"],
)
def test_declined(expression: str) -> None:
    (found,) = rewritten.conversion(HEAD.replace("EXPRESSION", expression)).report.diagnostics
    assert found.code in ("MIG302", "MIG304") and "return" in found.source


MODULE = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.c = nn.Conv1d(2, 2, 1)

    def block(self, x, scale):
        return F.relu(self.a(x)) * scale

    def forward(self, x):
        x = checkpoint(self.a, x, use_reentrant=False)
        x = checkpoint(self.block, x + 1, 2.0, use_reentrant=False)
        return checkpoint(self.c, x)
"""


def test_rematerialisation_changes_nothing_but_memory() -> None:
    plain = MODULE
    for call, direct in (
        ("checkpoint(self.a, x, use_reentrant=False)", "self.a(x)"),
        ("checkpoint(self.block, x + 1, 2.0, use_reentrant=False)", "self.block(x + 1, 2.0)"),
        ("checkpoint(self.c, x)", "self.c(x)"),
    ):
        plain = plain.replace(call, direct)
    text = rewritten.clean(MODULE).text
    assert text.count("nn.remat(") == 3
    one, other = rewritten.executed(text)["M"](), rewritten.executed(rewritten.clean(plain).text)["M"]()
    x = jax.random.normal(jax.random.key(0), (3, 2, 4))
    params, same = one.init(jax.random.key(1), x), other.init(jax.random.key(1), x)
    assert jax.tree.structure(params) == jax.tree.structure(same)

    def loss(module):
        return jax.jit(jax.value_and_grad(lambda params: (module.apply(params, x) ** 2).sum()))(params)

    for found, expected in zip(jax.tree.leaves(loss(one)), jax.tree.leaves(loss(other)), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-6)


def test_a_function_is_computed_again() -> None:
    source = HEAD.replace("from torch.func", "from torch.utils.checkpoint import checkpoint\nfrom torch.func")
    text = rewritten.clean(source.replace("EXPRESSION", "checkpoint(g, x, y, use_reentrant=False)")).text
    assert "jax.checkpoint(g)(x, y)" in text

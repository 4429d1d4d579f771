"""Both frameworks get the same numbers for the same draw; weights keep torch's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# One process with both frameworks patched: the patches last as long as the process. Each case is a pair of expressions.
HEADER = """
import json, sys
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
import flax.linen as fnn, jax, jax.numpy as jnp
from parity import draws_jax, draws_torch
draws_torch.install()
draws_jax.install()
key = jax.random.key(0)
ones = torch.ones(6, 4, 5, 3)
flax_ones = jnp.ones((6, 5, 3, 4))

def filled(layer):
    return nn.init.normal_(layer.weight)


def channel_last_dropout(rate, axes=()):
    layer = fnn.Dropout(rate, broadcast_dims=axes, deterministic=False)
    return layer.apply({}, flax_ones, rngs={"dropout": key}).transpose(0, 3, 1, 2)


def lstm(dropout):
    torch.manual_seed(0)
    model = nn.LSTM(3, 4, num_layers=3, dropout=dropout, bidirectional=True)
    output, (hidden, cell) = model(torch.ones(6, 2, 3))
    return torch.cat([output.flatten(), hidden.flatten(), cell.flatten()])


def one_way(lengths):
    torch.manual_seed(0)
    model, x = nn.LSTM(3, 4, num_layers=3, dropout=0.5), torch.ones(6, 2, 3)
    if lengths:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(model(packed)[0])[0]
    return model(x)[0]


probabilities = np.random.RandomState(0).rand(7, 5).astype(np.float32)
"""

PAIRS = {
    "rand": ("torch.rand(3, 4)", "jax.random.uniform(key, (3, 4))"),
    "rand of a size": ("torch.rand((3, 4))", "jax.random.uniform(key, (3, 4))"),
    "rand_like": ("torch.rand_like(ones)", "jax.random.uniform(key, ones.shape)"),
    "randn": ("torch.randn(torch.Size([3, 4]))", "jax.random.normal(key, (3, 4))"),
    "randn in float64": ("torch.randn(9, dtype=torch.float64).float()", "jax.random.normal(key, (9,))"),
    "randn_like": ("torch.randn_like(ones)", "jax.random.normal(key, ones.shape)"),
    "normal": ("torch.normal(0.0, 1.0, (3, 4))", "jax.random.normal(key, (3, 4))"),
    "normal of tensors": ("torch.normal(ones, 2 * ones)", "1 + 2 * jax.random.normal(key, ones.shape)"),
    "Normal.rsample": (
        "torch.distributions.Normal(ones, ones).rsample()",
        "1 + jax.random.normal(key, ones.shape)",
    ),
    "Gamma": ("torch.distributions.Gamma(ones, 2.0).sample()", "jax.random.gamma(key, jnp.ones(ones.shape)) / 2"),
    "Beta": (
        "torch.distributions.Beta(0.2, 0.2).sample((3,))",
        "jax.jit(lambda a: jax.random.beta(key, a, 0.2, (3,)))(0.2)",
    ),
    "Dirichlet": (
        "torch.distributions.Dirichlet(torch.tensor([0.5, 1.0, 2.0])).sample()",
        "jax.random.dirichlet(key, jnp.array([0.5, 1.0, 2.0]))",
    ),
    "randint": ("torch.randint(10, (8,))", "jax.random.randint(key, (8,), 0, 10)"),
    "randint from low": ("torch.randint(-5, 10, size=(8,))", "jax.random.randint(key, (8,), -5, 10)"),
    "randint by name": ("torch.randint(low=2, high=9, size=(8,))", "jax.random.randint(key, (8,), 2, 9)"),
    "randperm": ("torch.randperm(50)", "jax.random.permutation(key, 50)"),
    "bernoulli": ("torch.bernoulli(ones * 0.3)", "jax.random.bernoulli(key, 0.3, ones.shape)"),
    "bernoulli under jit": (
        "torch.bernoulli(ones * 0.3)",
        "jax.jit(lambda p: jax.random.bernoulli(key, p))(jnp.full(ones.shape, 0.3))",
    ),
    "multinomial": (
        "torch.multinomial(torch.from_numpy(probabilities), 1)[:, 0]",
        "jax.random.categorical(key, jnp.log(probabilities))",
    ),
    "multinomial, several": (
        "torch.multinomial(torch.from_numpy(probabilities), 3, replacement=True)",
        "jax.random.categorical(key, jnp.log(probabilities), shape=(3, 7)).T",
    ),
    "multinomial, distinct": (
        "torch.multinomial(torch.from_numpy(probabilities[0]), 3)",
        "jax.random.choice(key, 5, (3,), replace=False, p=probabilities[0])",
    ),
    "uniform_ outside a module": ("torch.empty(3, 4).uniform_(-1, 1)", "jax.random.uniform(key, (3, 4)) * 2 - 1"),
    "normal_ outside a module": ("torch.empty(3, 4).normal_()", "jax.random.normal(key, (3, 4))"),
    "nn.init of a tensor, uniform": (
        "nn.init.xavier_uniform_(torch.empty(3, 4))",
        "fnn.initializers.xavier_uniform(in_axis=1, out_axis=0)(key, (3, 4))",
    ),
    "nn.init of a tensor, normal": (
        "nn.init.kaiming_normal_(torch.empty(3, 4))",
        'fnn.initializers.variance_scaling(2.0, "fan_in", "normal", in_axis=1, out_axis=0)(key, (3, 4))',
    ),
    "exponential_": ("torch.empty(3, 4).exponential_()", "jax.random.exponential(key, (3, 4))"),
    "gumbel_softmax": (
        "F.gumbel_softmax(torch.from_numpy(probabilities))",
        "jax.nn.softmax(probabilities + jax.random.gumbel(key, (7, 5)))",
    ),
    "dropout": ("F.dropout(ones, 0.3)", "channel_last_dropout(0.3)"),
    "a module's dropout": ("nn.Dropout(0.3)(ones)", "channel_last_dropout(0.3)"),
    "dropout of whole features": ("nn.Dropout2d(0.5)(ones)", "channel_last_dropout(0.5, (1, 2))"),
    "dropout in evaluation": ("nn.Dropout(0.3).eval()(ones)", "jnp.ones(ones.shape)"),
    "attention's dropout": (
        "F.scaled_dot_product_attention(ones, ones, ones, dropout_p=0.25)",
        "fnn.Dropout(0.25, deterministic=False).apply({}, jnp.full((6, 4, 5, 5), 0.2), rngs={'dropout': key}) "
        "@ jnp.ones((6, 4, 5, 3))",
    ),
    "a loader's order": (
        "torch.cat(list(torch.utils.data.DataLoader(torch.arange(20), batch_size=6, shuffle=True)))",
        "jax.random.permutation(key, 20)",
    ),
    "a random split": (
        "torch.tensor(torch.utils.data.random_split(range(20), [15, 5])[0].indices)",
        "jax.random.permutation(key, 20)[:15]",
    ),
}  # fmt: skip

# What must stay torch's own numbers: all of these are true.
OWN = {
    "a layer's weights differ from the stand-in": (
        "not np.allclose(nn.Linear(30, 30).weight.detach(), nn.Linear(30, 30).weight.detach())"
    ),
    "nn.init of a weight": (
        "not torch.equal(*[nn.init.normal_(layer.weight) for layer in (nn.Linear(9, 9), nn.Linear(9, 9))])"
    ),
    "but for the first that a place fills": (
        "torch.equal(*[layer.weight.data.normal_() for layer in (nn.Linear(9, 9), nn.Linear(9, 9))][:1],"
        " torch.empty(9, 9).normal_())"
    ),
    "a place for each that calls": "torch.equal(filled(nn.Linear(9, 9)), filled(nn.Linear(9, 9)))",
    "truncated draws, until all are within the bounds": (
        "not torch.equal(*[nn.init.trunc_normal_(torch.empty(9), a=-0.5, b=0.5) for _ in range(2)])"
    ),
    "a fill of a parameter's data": (
        "not torch.equal(*[layer.weight.data.normal_() for layer in (nn.Linear(9, 9), nn.Linear(9, 9))])"
    ),
    "a fill of something else": "torch.equal(*[torch.empty(9, 9).normal_() for _ in range(2)])",
    "a draw in a constructor": ("not torch.equal(Drawing().w, Drawing().w)"),
    "a draw elsewhere": "torch.equal(torch.randn(9), torch.randn(9))",
    "dropout inside an LSTM repeats": "torch.equal(lstm(0.5), lstm(0.5)) and not torch.equal(lstm(0.5), lstm(0.0))",
    "a packed batch has the masks of a padded one": "torch.allclose(one_way([3, 5])[:, 1], one_way([])[:5, 1])",
    "and so has its shorter sequence": "torch.allclose(one_way([3, 5])[:3, 0], one_way([])[:3, 0])",
    "an LSTM run layer by layer is the same": "torch.allclose(lstm(1e-12), lstm(0.0), rtol=0, atol=1e-6)",
}


def _run(lines: str) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", HEADER + lines], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def differences() -> dict:
    lines = ["out = {}"]
    for name, (torch, jax) in PAIRS.items():
        lines.append(f"a, b = np.asarray({torch}, np.float64), np.asarray({jax}, np.float64)")
        lines.append(f"out[{name!r}] = [list(a.shape), list(b.shape), float(np.abs(a - b).max()), float(np.ptp(a))]")
    return _run("\n".join([*lines, "print(json.dumps(out))"]))


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_numbers_on_both_sides(differences: dict, name: str) -> None:
    ours, theirs, difference, span = differences[name]
    assert ours == theirs
    assert difference <= 4e-7 * max(span, 1)  # some roundings of float32; the draws themselves are equal
    assert span > 0 or name == "dropout in evaluation"


@pytest.fixture(scope="module")
def own() -> dict:
    lines = ["class Drawing(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += ["        self.w = torch.randn(9)", "out = {}"]
    lines += [f"out[{name!r}] = bool({expression})" for name, expression in OWN.items()]
    return _run("\n".join([*lines, "print(json.dumps(out))"]))


@pytest.mark.parametrize("name", OWN)
def test_weights_keep_torch_s_own_numbers(own: dict, name: str) -> None:
    assert own[name]

"""Initial weights: the same distributions as torch's, over layers large enough to tell."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.layers.table import TABLE
from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state, source
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

# Every layer with weights: one whose weights are many, and the shape and upper bound of its input.
LARGE: dict[str, tuple[str, tuple[int, ...], int]] = {
    "torch.nn.Linear": ("nn.Linear(150, 400)", (1, 150), 0),
    "torch.nn.Embedding": ("nn.Embedding(400, 100)", (1, 2), 400),
    "torch.nn.Conv1d": ("nn.Conv1d(60, 400, 3, groups=2)", (1, 60, 5), 0),
    "torch.nn.Conv2d": ("nn.Conv2d(20, 300, (3, 2))", (1, 20, 5, 5), 0),
    "torch.nn.Conv3d": ("nn.Conv3d(6, 200, 3)", (1, 6, 3, 3, 3), 0),
    "torch.nn.ConvTranspose1d": ("nn.ConvTranspose1d(200, 60, 3)", (1, 200, 5), 0),
    "torch.nn.ConvTranspose2d": ("nn.ConvTranspose2d(150, 20, (3, 2))", (1, 150, 5, 5), 0),
    "torch.nn.ConvTranspose3d": ("nn.ConvTranspose3d(100, 6, 3)", (1, 100, 3, 3, 3), 0),
    "torch.nn.LSTM": ("nn.LSTM(50, 40, proj_size=30)", (1, 1, 50), 0),
    "torch.nn.GRU": ("nn.GRU(50, 40)", (1, 1, 50), 0),
    "torch.nn.RNN": ("nn.RNN(50, 80)", (1, 1, 50), 0),
    "torch.nn.LSTMCell": ("nn.LSTMCell(50, 40)", (1, 50), 0),
    "torch.nn.GRUCell": ("nn.GRUCell(50, 40)", (1, 50), 0),
    "torch.nn.RNNCell": ("nn.RNNCell(50, 80)", (1, 50), 0),
    "torch.nn.InstanceNorm1d": ("nn.InstanceNorm1d(8, affine=True)", (2, 8, 3), 0),
    "torch.nn.InstanceNorm2d": ("nn.InstanceNorm2d(8, affine=True)", (2, 8, 3, 2), 0),
    "torch.nn.InstanceNorm3d": ("nn.InstanceNorm3d(8, affine=True)", (2, 8, 3, 2, 2), 0),
    "torch.nn.RMSNorm": ("nn.RMSNorm(8)", (2, 8), 0),
    "torch.nn.PReLU": ("nn.PReLU()", (2, 8), 0),
    "torch.nn.BatchNorm1d": ("nn.BatchNorm1d(8)", (2, 8), 0),
    "torch.nn.BatchNorm2d": ("nn.BatchNorm2d(8)", (2, 8, 2, 2), 0),
    "torch.nn.BatchNorm3d": ("nn.BatchNorm3d(8)", (2, 8, 2, 2, 2), 0),
    "torch.nn.LayerNorm": ("nn.LayerNorm(8)", (2, 8), 0),
    "torch.nn.GroupNorm": ("nn.GroupNorm(2, 8)", (2, 8, 2), 0),
}


def test_every_layer_with_weights_is_here() -> None:
    assert set(LARGE) == {name for name, layer in TABLE.items() if layer.weights}


@pytest.mark.parametrize("name", LARGE)
def test_initial_weights(name: str) -> None:
    constructor, shape, high = LARGE[name]
    made = rewritten.clean(source(constructor))
    torch.manual_seed(0)
    written = rewritten.executed(source(constructor))["M"]()
    theirs = leaves(port_state_dict(numpy_state(written), rewritten.model_weights(made)))
    x = jnp.zeros(shape, jnp.int32 if high else jnp.float32)
    ours = leaves(rewritten.executed(made.text)["M"]().init(jax.random.key(0), x))
    assert sorted(ours) == sorted(theirs)
    for path, leaf in ours.items():
        ours_here, theirs_here = np.asarray(leaf), theirs[path]
        assert ours_here.dtype == theirs_here.dtype
        if np.ptp(theirs_here) == 0:
            np.testing.assert_array_equal(ours_here, theirs_here, path)
        else:
            assert kolmogorov_smirnov(ours_here, theirs_here) <= SAME_DISTRIBUTION, path
            bound = np.abs(theirs_here).max()
            # of a bounded distribution: the largest of n draws is within a few n-ths of the bound
            assert "normal" in made.text or abs(np.abs(ours_here).max() / bound - 1) < 20 / theirs_here.size, path

"""Initial weights: the same distributions as torch's, over layers large enough to tell."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from migrate.layers.layer import Sample
from migrate.layers.table import TABLE
from tests.conformance import rewritten
from tests.conformance.run_layer import example_inputs, leaves, numpy_state, sample_source
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

# Every layer with weights: one whose weights are many, and the shape and upper bound of its input.
LARGE = {
    "torch.nn.Linear": Sample("nn.Linear(150, 400)", (1, 150)),
    "torch.nn.Embedding": Sample("nn.Embedding(400, 100)", (1, 2), high=400),
    "torch.nn.Conv1d": Sample("nn.Conv1d(60, 400, 3, groups=2)", (1, 60, 5)),
    "torch.nn.Conv2d": Sample("nn.Conv2d(20, 300, (3, 2))", (1, 20, 5, 5)),
    "torch.nn.Conv3d": Sample("nn.Conv3d(6, 200, 3)", (1, 6, 3, 3, 3)),
    "torch.nn.ConvTranspose1d": Sample("nn.ConvTranspose1d(200, 60, 3)", (1, 200, 5)),
    "torch.nn.ConvTranspose2d": Sample("nn.ConvTranspose2d(150, 20, (3, 2))", (1, 150, 5, 5)),
    "torch.nn.ConvTranspose3d": Sample("nn.ConvTranspose3d(100, 6, 3)", (1, 100, 3, 3, 3)),
    "torch.nn.LSTM": Sample("nn.LSTM(50, 40, proj_size=30)", (1, 1, 50)),
    "torch.nn.GRU": Sample("nn.GRU(50, 40)", (1, 1, 50)),
    "torch.nn.RNN": Sample("nn.RNN(50, 80)", (1, 1, 50)),
    "torch.nn.LSTMCell": Sample("nn.LSTMCell(50, 40)", (1, 50)),
    "torch.nn.GRUCell": Sample("nn.GRUCell(50, 40)", (1, 50)),
    "torch.nn.RNNCell": Sample("nn.RNNCell(50, 80)", (1, 50)),
    "torch.nn.EmbeddingBag": Sample("nn.EmbeddingBag(400, 100)", (1, 2), high=400),
    "torch.nn.Bilinear": Sample("nn.Bilinear(20, 30, 40)", (1, 20), call="x, y", inputs="y: f32[1, 30]"),
    "torch.nn.MultiheadAttention": Sample(
        "nn.MultiheadAttention(40, 2, kdim=30, vdim=20)", (1, 1, 40), call="x, x[..., :30], x[..., :20]"
    ),
    "torch.nn.TransformerEncoderLayer": Sample("nn.TransformerEncoderLayer(40, 2, 50)", (1, 1, 40)),
    "torch.nn.TransformerDecoderLayer": Sample("nn.TransformerDecoderLayer(40, 2, 50)", (1, 1, 40), call="x, x"),
    "torch.nn.Transformer": Sample("nn.Transformer(40, 2, 1, 1, 60, dropout=0.0)", (1, 1, 40), call="x, x"),
    "torch.nn.SyncBatchNorm": Sample("nn.SyncBatchNorm(8)", (2, 8)),
    "torch.nn.InstanceNorm1d": Sample("nn.InstanceNorm1d(8, affine=True)", (2, 8, 3)),
    "torch.nn.InstanceNorm2d": Sample("nn.InstanceNorm2d(8, affine=True)", (2, 8, 3, 2)),
    "torch.nn.InstanceNorm3d": Sample("nn.InstanceNorm3d(8, affine=True)", (2, 8, 3, 2, 2)),
    "torch.nn.RMSNorm": Sample("nn.RMSNorm(8)", (2, 8)),
    "torch.nn.PReLU": Sample("nn.PReLU()", (2, 8)),
    "torch.nn.BatchNorm1d": Sample("nn.BatchNorm1d(8)", (2, 8)),
    "torch.nn.BatchNorm2d": Sample("nn.BatchNorm2d(8)", (2, 8, 2, 2)),
    "torch.nn.BatchNorm3d": Sample("nn.BatchNorm3d(8)", (2, 8, 2, 2, 2)),
    "torch.nn.LayerNorm": Sample("nn.LayerNorm(8)", (2, 8)),
    "torch.nn.GroupNorm": Sample("nn.GroupNorm(2, 8)", (2, 8, 2)),
    "torch.nn.utils.weight_norm": Sample("nn.utils.weight_norm(nn.Conv1d(60, 400, 3))", (1, 60, 5)),
    "torch.nn.utils.parametrizations.weight_norm": Sample(
        "nn.utils.parametrizations.weight_norm(nn.Linear(150, 400))", (1, 150)
    ),
    "torch.nn.utils.spectral_norm": Sample("nn.utils.spectral_norm(nn.Conv1d(60, 400, 3))", (1, 60, 5)),
    "torch.nn.utils.parametrizations.spectral_norm": Sample(
        "nn.utils.parametrizations.spectral_norm(nn.Linear(150, 400))", (1, 150)
    ),
    "torch.nn.LazyLinear": Sample("nn.LazyLinear(400)", (1, 150)),
    "torch.nn.LazyConv2d": Sample("nn.LazyConv2d(300, (3, 2), groups=2)", (1, 20, 5, 5)),
    **{
        f"torch_geometric.nn.{name}": Sample(f"gnn.{name}({arguments})", (2, 150), call="x, torch.tensor([[0], [1]])")
        for name, arguments in {
            **dict.fromkeys(("GCNConv", "SGConv", "SAGEConv", "GraphConv", "TAGConv"), "150, 400"),
            **dict.fromkeys(("GATConv", "GATv2Conv"), "150, 200, heads=20"),
            "GINConv": "nn.Linear(150, 400), train_eps=True",
        }.items()
    },
    "torch_geometric.nn.MLP": Sample("gnn.MLP([150, 400, 300])", (2, 150)),
    "torch_geometric.nn.BatchNorm": Sample("gnn.BatchNorm(8)", (2, 8)),
    "torch_geometric.nn.Linear": Sample("gnn.Linear(150, 400)", (1, 150)),
}
# Layers that wait for their first input draw their weights as the others do, or wait in the same way as those above.
WAITING = {name for name, layer in TABLE.items() if layer.waits}


def test_every_layer_with_weights_is_here() -> None:
    assert set(LARGE) - WAITING == {name for name, layer in TABLE.items() if layer.weights or layer.wraps} - WAITING


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")  # both forms are in use
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True, but")  # of nn.Transformer, which cannot say otherwise
@pytest.mark.parametrize("name", LARGE)
def test_initial_weights(name: str) -> None:
    text = sample_source(LARGE[name])
    made = rewritten.clean(text)
    torch.manual_seed(0)
    written = rewritten.executed(text)["M"]()
    inputs = example_inputs(LARGE[name], "float32")
    if name in WAITING:
        written(*map(torch.tensor, inputs.values()))
    theirs = leaves(port_state_dict(numpy_state(written), rewritten.model_weights(made)))
    ours = leaves(rewritten.executed(made.text)["M"]().init(jax.random.key(0), *inputs.values()))
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

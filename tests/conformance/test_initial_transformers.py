"""Initial weights asked for all matrices of a model that torch's transformers are part of: `if p.dim() > 1`."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True, but")
MODEL = """import torch
import torch.nn as nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 32)
        self.inner = MADE
        FILL

    def forward(self, x):
        h = self.emb(x)
        return CALL
"""
LOOP = """for p in self.parameters():
            if p.dim() > 1:
                nn.init.HOW"""
APPLIED = """self.apply(self.start)

    def start(self, m):
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.zeros_(m.bias)"""
LAYER = "nn.TransformerEncoderLayer(32, 2, 64, 0.0)"
MAKERS = {
    "layer": (LAYER, "self.inner(h)"),
    "stack": (f"nn.TransformerEncoder({LAYER}, 2, norm=nn.LayerNorm(32))", "self.inner(h)"),
    "decoder": ("nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 2, 64, 0.0), 2)", "self.inner(h, h)"),
    "whole": ("nn.Transformer(32, 2, 1, 1, 64, dropout=0.0)", "self.inner(h, h)"),
    "attention": ("nn.MultiheadAttention(32, 2)", "self.inner(h, h, h)[0]"),
}


@pytest.mark.parametrize(
    "fill", [LOOP.replace("HOW", "xavier_uniform_(p)"), LOOP.replace("HOW", "normal_(p, std=0.02)"), APPLIED]
)
@pytest.mark.parametrize("kind", MAKERS)
def test_weights_start_as_torchs(kind: str, fill: str) -> None:
    made, call = MAKERS[kind]
    source = MODEL.replace("MADE", made).replace("CALL", call).replace("FILL", fill)
    converted = rewritten.clean(source)
    torch.manual_seed(0)
    theirs = rewritten.executed(source)["M"]()
    expected = leaves(port_state_dict(numpy_state(theirs), rewritten.model_weights(converted)))
    found = leaves(rewritten.executed(converted.text)["M"]().init(jax.random.key(0), np.zeros((2, 1), int)))
    assert sorted(found) == sorted(expected)
    for path, leaf in found.items():
        if np.ptp(expected[path]) == 0:
            np.testing.assert_array_equal(leaf, expected[path], path)
        else:
            assert kolmogorov_smirnov(np.asarray(leaf), expected[path]) <= SAME_DISTRIBUTION, path


def test_some_matrices_of_a_layer_alone_are_refused() -> None:
    fill = """for name, p in self.named_parameters():
            if name.endswith("linear1.weight"):
                nn.init.zeros_(p)"""
    made, call = MAKERS["layer"]
    source = MODEL.replace("MADE", made).replace("CALL", call).replace("FILL", fill)
    found = rewritten.conversion(source).report.diagnostics
    assert [one.code for one in found] == ["MIG204"] and "start differently" in found[0].message


def test_the_parts_of_a_transformer_are_called() -> None:
    call = "self.inner.decoder(h, self.inner.encoder(h, src_key_padding_mask=x.T == 0), tgt_mask=None)"
    source = MODEL.replace("MADE", MAKERS["whole"][0]).replace("CALL", call).replace("FILL", "pass")
    converted = rewritten.clean(source)
    theirs = rewritten.executed(source)["M"]()
    x = torch.arange(6).reshape(3, 2) % 5
    expected = theirs(x).detach().numpy()
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(converted))
    found = rewritten.executed(converted.text)["M"]().apply(variables, x.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

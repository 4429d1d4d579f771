"""Weights that a module class holds itself or shares between its layers: the same outputs from the same weights, and
the same initial values."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

LANGUAGE_MODEL = (Path(__file__).parent.parent / "golden/language_model/before.py").read_text()
TIED = """import torch
from torch import nn


class M(nn.Module):
    def __init__(self, shared=True):
        super().__init__()
        self.table = nn.Embedding(300, 40)
        self.head = nn.Linear(40, 300, bias=False)
        {tie}

    def forward(self, x):
        return self.head(self.table(x))
"""
FILL = """
    def fill(self, m):
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight)
"""
TIES = {
    "the table's": "self.head.weight = self.table.weight",
    "the table's, set before": "nn.init.ones_(self.table.weight)\n        self.head.weight = self.table.weight",
    "the dense layer's": "self.table.weight = self.head.weight",
    "set afterwards": "self.table.weight = self.head.weight\n        nn.init.normal_(self.table.weight, std=3)",
}


@pytest.mark.parametrize("bias", [True, False])
def test_a_language_model_gives_the_same(bias: bool) -> None:
    made = rewritten.clean(LANGUAGE_MODEL)
    config = SimpleNamespace(vocabulary=11, width=8, layers=2, bias=bias)
    torch.manual_seed(0)
    theirs = rewritten.executed(LANGUAGE_MODEL)["Model"](config).double()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_()
    tokens = torch.randint(0, 11, (2, 5))
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made, "Model"))
    ours = rewritten.executed(made.text)["Model"](config)
    assert leaves(ours.init(jax.random.key(0), tokens.numpy())).keys() == leaves(variables).keys()
    with jax.enable_x64(True):
        given = ours.apply(variables, tokens.numpy())
    # in float64, far from where anything cancels: what differs is rounding alone
    np.testing.assert_allclose(given, theirs(tokens).detach().numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tie", TIES)
def test_a_tied_weight_starts_as_in_torch(tie: str) -> None:
    text = TIED.format(tie=TIES[tie])
    made = rewritten.clean(text)
    torch.manual_seed(0)
    theirs = rewritten.executed(text)["M"]().table.weight.detach().numpy()
    (ours,) = leaves(rewritten.executed(made.text)["M"]().init(jax.random.key(0), np.array([0]))).values()
    assert ours.shape == theirs.shape
    assert kolmogorov_smirnov(np.asarray(ours), theirs) <= SAME_DISTRIBUTION


REFUSED = {
    # which of two initialisers is the last to fill a shared weight goes by the order of the layers
    "two initialisers": TIES["the dense layer's"] + "\n        self.apply(self.fill)" + FILL,
    "a condition": "if shared:\n            self.head.weight = self.table.weight\n",
    "set before": "nn.init.normal_(self.head.weight)\n        " + TIES["the dense layer's"],
}


@pytest.mark.parametrize("tie", REFUSED)
def test_a_tie_that_is_refused(tie: str) -> None:
    report = rewritten.conversion(TIED.format(tie=REFUSED[tie])).report
    assert {found.code for found in report.diagnostics} >= {"MIG204"}, report.as_text()


SHAPES = """

def rows_of(model):
    return model.table.weight.shape[0]


net = M()
tokens = torch.zeros(2, 3, dtype=torch.long)
output = net(tokens)
found = [rows_of(net), tuple(net.table.weight.shape), len(net.head.bias.shape)]
"""


def test_shapes_of_weights_outside_the_module() -> None:
    text = TIED.replace(", bias=False", "").format(tie="pass") + SHAPES
    made = rewritten.clean(text)
    assert 'params["table"]["embedding"].shape' in made.text
    assert rewritten.executed(made.text)["found"] == rewritten.executed(text)["found"] == [300, (300, 40), 1]


def test_the_shape_of_a_weight_with_other_axes_is_torchs() -> None:
    text = TIED.format(tie="pass") + SHAPES.replace("len(net.head.bias.shape)", "tuple(net.head.weight.shape)")
    made = rewritten.clean(text)
    assert 'params["head"]["kernel"].T.shape' in made.text
    assert rewritten.executed(made.text)["found"] == rewritten.executed(text)["found"]

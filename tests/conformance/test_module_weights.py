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
    "a condition": "if shared:\n            self.table.weight = self.head.weight\n",
    "a condition on more than a field": "if shared and x:\n            self.head.weight = self.table.weight\n",
    "another start": "if shared:\n            self.head.weight = self.table.weight\n"
    "        nn.init.ones_(self.head.weight)",
    "set before": "nn.init.normal_(self.head.weight)\n        " + TIES["the dense layer's"],
}


@pytest.mark.parametrize("tie", REFUSED)
def test_a_tie_that_is_refused(tie: str) -> None:
    report = rewritten.conversion(TIED.format(tie=REFUSED[tie])).report
    assert {found.code for found in report.diagnostics} >= {"MIG204"}, report.as_text()


BY_FLAG = TIED.replace("300, bias=False", "300").format(
    tie="""if shared:
            if not isinstance(shared, bool):
                raise ValueError("a flag is needed")
            self.head.weight = self.table.weight
        self.fill()

    def fill(self):
        nn.init.uniform_(self.table.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)
        nn.init.uniform_(self.head.weight, -0.1, 0.1)"""
)


@pytest.mark.parametrize("shared", [True, False])
def test_a_field_says_whether_a_weight_is_tied(shared: bool) -> None:
    made = rewritten.clean(BY_FLAG)
    theirs = rewritten.executed(BY_FLAG)["M"](shared)
    with torch.no_grad():
        theirs.head.bias.normal_()
    weights = rewritten.model_weights(made, "M")
    variables = port_state_dict(numpy_state(theirs), weights)
    ours, tokens = rewritten.executed(made.text)["M"](shared), torch.arange(12)
    first = ours.init(jax.random.key(0), tokens.numpy())
    assert leaves(first).keys() == leaves(variables).keys()
    assert "head" in first["params"] or shared
    np.testing.assert_allclose(ours.apply(variables, tokens.numpy()), theirs(tokens).detach(), rtol=1e-5, atol=1e-6)
    assert not first["params"]["head_bias"].any()
    table = np.asarray(first["params"]["table"]["embedding"])
    assert kolmogorov_smirnov(table, theirs.table.weight.detach().numpy()) <= SAME_DISTRIBUTION
    found = jax.grad(lambda params: ours.apply({"params": params}, tokens.numpy()).std())(variables["params"])
    theirs(tokens).std(correction=0).backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    for name, value in leaves(port_state_dict(gradients, weights)).items():
        np.testing.assert_allclose(leaves({"params": found})[name], value, rtol=1e-4, atol=1e-7)


ELSEWHERE = """import torch
import torch.nn as nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(300, width)

    def forward(self, x):
        return F.relu(self.table(x))


class Inner(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = Encoder(width)

    def forward(self, x):
        return self.encoder(x)


class M(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.inner = Inner(settings.width)
        self.head = nn.Linear(40, 300)
        {flag}self.head.weight = self.inner.encoder.table.weight

    def forward(self, x):
        return self.head(self.inner(x))
"""


OWN_TABLE = """class Table(nn.Module):
    def __init__(self, number, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(number, width))

    def forward(self, x):
        return F.embedding(x, self.weight) * 3.0


class Encoder"""


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("flag", "shared"), [("", True), ("if settings.shared: ", True), ("if settings.shared: ", False)]
)
def test_a_dense_layer_with_the_table_of_a_part(flag: str, shared: bool, own: bool) -> None:
    text = ELSEWHERE.format(flag=flag)
    if own:
        text = text.replace("class Encoder", OWN_TABLE).replace("nn.Embedding(", "Table(")
    settings = SimpleNamespace(width=40, shared=shared)
    made = rewritten.clean(text)
    theirs, ours = rewritten.executed(text)["M"](settings), rewritten.executed(made.text)["M"](settings)
    weights, tokens = rewritten.model_weights(made, "M"), torch.arange(12)
    variables = port_state_dict(numpy_state(theirs), weights)
    assert leaves(ours.init(jax.random.key(0), tokens.numpy())).keys() == leaves(variables).keys()
    np.testing.assert_allclose(ours.apply(variables, tokens.numpy()), theirs(tokens).detach(), rtol=1e-5, atol=1e-6)
    found = jax.grad(lambda params: ours.apply({"params": params}, tokens.numpy()).std())(variables["params"])
    theirs(tokens).std(correction=0).backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    for name, value in leaves(port_state_dict(gradients, weights)).items():
        np.testing.assert_allclose(leaves({"params": found})[name], value, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "tie",
    [
        "self.inner.encoder.table.weight = self.head.weight",  # which then starts as a dense layer does
        "self.other = nn.Embedding(300, 40); self.other.weight = self.inner.encoder.table.weight",
        "if settings.shared and settings.width: self.head.weight = self.inner.encoder.table.weight",
    ],
)
def test_other_ties_with_a_part_are_refused(tie: str) -> None:
    text = ELSEWHERE.format(flag="")
    made = rewritten.conversion(text.replace("self.head.weight = self.inner.encoder.table.weight", tie))
    assert {found.code for found in made.report.diagnostics} >= {"MIG204"}, made.report.as_text()


NOT_CALLED = TIED.replace("300, bias=False", "300").replace(
    "return self.head(self.table(x))",
    "for layer in (self.table, self.head):\n            x = layer(x)\n        return x + self.head.bias",
)


@pytest.mark.parametrize("flag", ["", "if shared: "])
def test_a_tied_layer_is_a_function_where_it_is_not_called(flag: str) -> None:
    text = NOT_CALLED.format(tie=flag + TIES["the table's"])
    made = rewritten.clean(text)
    theirs = rewritten.executed(text)["M"]()
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made, "M"))
    given = rewritten.executed(made.text)["M"]().apply(variables, np.arange(4))
    np.testing.assert_allclose(given, theirs(torch.arange(4)).detach(), rtol=1e-5, atol=1e-6)


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

"""nn.Sequential of modules that return a tuple or a dict, which is the one argument of the next."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, FOUR_STEPS, trained

PARTS = """import torch
from collections import OrderedDict
from torch import nn


class Last(nn.Module):
    def forward(self, x):
        rows, _ = x
        return rows[-1:]


class Layer(nn.Module):
    def __init__(self, n, m, activation=nn.Tanh()):
        super().__init__()
        self.lin, self.activation = nn.Linear(n, m), activation

    def forward(self, data):
        x, edges = data
        out = self.lin(x)
        return (out if self.activation is None else self.activation(out)) * edges, edges


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, given):
        return {"x": self.lin(given["x"]), "y": given["y"] * 2}


class Row(nn.Sequential):
    def __init__(self):
        super().__init__(nn.GRU(4, 5), Last(), nn.Linear(5, 2))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = ROW

    def forward(self, x):
        return RETURNED


x = torch.arange(12.0).reshape(3, 4) / 10
"""
EDGES = "self.net((x, torch.arange(3.0)[:, None]))[0]"


@pytest.mark.parametrize(
    ("row", "returned"),
    [
        ("nn.Sequential(nn.LSTM(4, 5), Last(), nn.Linear(5, 2))", "self.net(x)"),
        ("nn.Sequential(OrderedDict(rnn=nn.RNN(4, 5), last=Last(), fc=nn.Linear(5, 2)))", "self.net(x)"),
        ("nn.Sequential(Layer(4, 5), Layer(5, 2, None))", EDGES),
        ("nn.Sequential(*[Layer(4, 4) for _ in range(3)])", EDGES),
        ("nn.Sequential(nn.Sequential(Layer(4, 4), Layer(4, 5)), Layer(5, 2))", EDGES),
        ("nn.Sequential(Named(), Named())", 'sum(self.net({"x": x, "y": x}).values())'),
        ("Row()", "self.net(x)"),
    ],
)
def test_what_is_handed_on_stays_whole(row: str, returned: str, float64: None) -> None:
    theirs, ours = trained(PARTS.replace("ROW", row).replace("RETURNED", returned) + FOUR_STEPS)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_rows_of_tensors_are_flaxs_own() -> None:
    text = PARTS.replace("ROW", "nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.LSTM(5, 2))")
    text = text[: text.index("class Row")] + text[text.index("class Net") :]
    assert "TorchSequential" not in rewritten.clean(text.replace("RETURNED", "self.net(x)[0]") + FOUR_STEPS).text


def test_a_model_of_layers_alone() -> None:
    source = PARTS[: PARTS.index("class Layer")] + (
        "x = torch.arange(12.0).reshape(3, 4) / 10\n"
        "model = nn.Sequential(nn.LSTM(4, 5), Last(), nn.Linear(5, 2))\nshape = tuple(model(x).shape)\n"
    )
    theirs, ours = rewritten.both(source)
    assert theirs["shape"] == ours["shape"] == (1, 2)

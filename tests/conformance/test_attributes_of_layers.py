"""What a script asks of layers on the host: `norm.running_mean`, `fc.in_features`, `dropout.p`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.body = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(4))

    def forward(self, x):
        return self.body(self.norm(x))


x = torch.arange(12.0).reshape(3, 4)
"""

STATISTICS = {
    "of a layer": "norm = nn.BatchNorm1d(4)\nnorm(x)\ny = norm.running_mean\n",
    "unbiased": "norm = nn.BatchNorm1d(4, momentum=0.3)\nnorm(x)\nnorm(2 * x)\ny = norm.running_var\n",
    "in eval mode": "norm = nn.BatchNorm1d(4).eval()\nnorm(x)\ny = norm.running_mean + norm.running_var\n",
    "of a part": "net = Net()\nnet(x)\ny = net.norm.running_mean * net.norm.running_var\n",
    "of a part by number": "net = Net()\nnet(x)\ny = net.body[1].running_mean\n",
}


@pytest.mark.parametrize("code", STATISTICS.values(), ids=STATISTICS)
def test_running_statistics_are_torchs(code: str) -> None:
    theirs, ours = rewritten.both(HEAD + code)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].numpy(), rtol=1e-5)  # a few sums of 3


SETTINGS = {
    "nn.Linear(4, 2)": ["in_features", "out_features"],
    "nn.Linear(out_features=2, in_features=4).to('cpu')": ["in_features", "out_features"],
    "nn.LayerNorm(4)": ["eps"],
    "nn.BatchNorm1d(4, eps=1e-3)": ["eps", "momentum", "num_features", "affine"],
    "nn.Dropout(0.25)": ["p"],
    "nn.LSTM(4, 3, num_layers=2)": ["hidden_size", "input_size", "num_layers", "bidirectional"],
}


@pytest.mark.parametrize("layer", SETTINGS)
def test_settings_are_what_the_call_says(layer: str) -> None:
    asked = ", ".join(f"layer.{name}" for name in SETTINGS[layer])
    theirs, ours = rewritten.both(f"{HEAD}layer = {layer}\nlayer(x)\nshown = [{asked}]\n")
    assert ours["shown"] == theirs["shown"]


REFUSED = {
    "kept in another form": ("nn.Conv1d(4, 2, 1)", "kernel_size", "x[:, :, None]"),
    "not told by the call": ("nn.Linear(len(x[0]), 2)", "in_features", "x"),
    "counted by torch alone": ("nn.BatchNorm1d(4)", "num_batches_tracked", "x"),
}


@pytest.mark.parametrize(("layer", "asked", "given"), REFUSED.values(), ids=REFUSED)
def test_others_are_told(layer: str, asked: str, given: str) -> None:
    """The layer in Flax has no such attribute: the output would raise."""
    made = rewritten.conversion(f"{HEAD}layer = {layer}\nlayer({given})\nprint(layer.{asked})\n")
    assert [(one.code, one.message) for one in made.report.diagnostics] == [
        ("MIG301", f"layer.{asked}: what torch's layer keeps, and the one in Flax does not")
    ]


def test_a_layer_that_is_one_of_two_says_nothing() -> None:
    made = "layer = nn.Linear(4, 2)\nlayer(x)\nlayer = nn.Linear(4, 3)\nlayer(x)\nprint(layer.out_features)\n"
    assert "MIG301" in [one.code for one in rewritten.conversion(HEAD + made).report.diagnostics]

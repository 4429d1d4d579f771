"""Parameters that are filled in the expression that makes them start with torch's distributions."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

FILLED = """import torch
from torch import nn


class M(nn.Module):
    def __init__(self, width=40, n=60):
        super().__init__()
        self.places = nn.Parameter(torch.empty(1, n, width).normal_(std=0.02))
        self.even = nn.Parameter(torch.Tensor(n, width).uniform_(-0.1, 0.3))
        self.full = nn.Parameter(torch.zeros(width).fill_(2.0))
        self.none = nn.Parameter(torch.Tensor(width).zero_())
        self.old = nn.Parameter(torch.FloatTensor(width, n).normal_(0, 0.3), requires_grad=True)
        self.cut = nn.Parameter(nn.init.trunc_normal_(torch.empty(width, n), std=2.0))
        self.by_fans = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, n)))
        self.by_inputs = nn.Parameter(nn.init.kaiming_normal_(torch.empty(4, width, n)))
        self.drawn = nn.Parameter(torch.normal(0.0, 0.05, size=(width, n)))

    def forward(self, x):
        told = self.cut.sum() + self.by_fans.sum() + self.by_inputs.mean() + self.drawn.sum()
        return x + self.places + self.even + self.full + self.none + (self.old @ x[0]).sum() + told
"""


def test_they_start_as_in_torch() -> None:
    made = rewritten.clean(FILLED)
    torch.manual_seed(0)
    theirs = rewritten.executed(FILLED)["M"]()
    ours = rewritten.executed(made.text)["M"]().init(jax.random.key(1), np.zeros((2, 60, 40), np.float32))
    wanted = leaves(port_state_dict(numpy_state(theirs), rewritten.model_weights(made)))
    found = leaves(ours)
    assert found.keys() == wanted.keys()
    for path, values in wanted.items():
        assert found[path].shape == values.shape
        if np.ptp(values) == 0:
            np.testing.assert_array_equal(found[path], values, path)
        else:
            assert kolmogorov_smirnov(np.asarray(found[path]), values) <= SAME_DISTRIBUTION, path


SCALED = """import torch
from torch import nn


class M(nn.Module):
    def __init__(self, width=60, gain=0.25):
        super().__init__()
        self.fc = nn.Linear(40, width)
        self.conv = nn.Conv1d(width, 50, 3)
        self.head = nn.Linear(width, 30)
        nn.init.xavier_uniform_(self.fc.weight)
        self.fc.weight.data.mul_(gain)
        self.fc.bias.data.mul_(0)
        self.conv.weight.data.div_(3)
        self.head.weight.data.mul_(0.1)
        self.head.weight.data.mul_(gain + 1)

    def forward(self, x):
        x = self.fc(x)
        return self.head(x), self.conv(x.transpose(1, 2))
"""


def test_weights_that_are_scaled() -> None:
    made = rewritten.clean(SCALED)
    torch.manual_seed(0)
    theirs = rewritten.executed(SCALED)["M"]()
    ours = leaves(rewritten.executed(made.text)["M"]().init(jax.random.key(1), np.zeros((2, 4, 40), np.float32)))
    for path, values in leaves(port_state_dict(numpy_state(theirs), rewritten.model_weights(made))).items():
        assert np.ptp(values) == 0 or kolmogorov_smirnov(np.asarray(ours[path]), values) <= SAME_DISTRIBUTION, path
        np.testing.assert_allclose(np.abs(ours[path]).max(), np.abs(values).max(), rtol=0.1, err_msg=path)


@pytest.mark.parametrize("line", ["self.fc.weight.data.mul_(torch.ones(60, 40))", "self.fc.weight.mul_(0.1)"])
def test_what_scales_in_another_way_is_refused(line: str) -> None:
    text = SCALED.replace("self.fc.weight.data.mul_(gain)", line)
    assert rewritten.conversion(text).report.diagnostics


def test_a_mean_that_is_told_later_is_refused() -> None:
    text = FILLED.replace("torch.normal(0.0, 0.05", "torch.normal(float(n), 0.05")
    assert "MIG204" in {one.code for one in rewritten.fresh(text).report.diagnostics}

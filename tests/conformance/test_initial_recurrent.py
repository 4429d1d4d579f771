"""Initial weights of recurrent networks: by loops over their parameters, and by name. What is asked of their sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4MORE)
        FILLED
        self.out = nn.Linear(4, 2)
        nn.init.constant_(self.out.weight, 0.5)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        return self.out(self.rnn(x)[0][-1])


net = Net()
y = net(torch.linspace(-1, 1, 24).reshape(4, 2, 3))
shown = [[float(v) for v in row] for row in y.detach()]
"""
BY_NAME = """for name, param in self.rnn.named_parameters():
            if "bias" in name:
                nn.init.constant_(param, 0.1)
            elif name.startswith("weight_hh"):
                nn.init.constant_(param, -0.2)
            else:
                param.data.fill_(0.3)"""
BY_RANK = """for param in self.rnn.parameters():
            if len(param.shape) >= 2:
                nn.init.constant_(param.data, 0.3)
            else:
                nn.init.constant_(param.data, 0.1)"""
ALONE = """nn.init.constant_(self.rnn.weight_ih_l0, 0.3)
        self.rnn.weight_hh_l0.data.fill_(-0.2)
        for bias in (self.rnn.bias_ih_l0, self.rnn.bias_hh_l0):
            nn.init.zeros_(bias)"""


@pytest.mark.parametrize(
    ("filled", "more"),
    [(BY_NAME, ""), (BY_NAME, ", 2"), (BY_RANK, ", num_layers=2"), (ALONE, "")],
    ids=["by name", "by name, two layers", "by rank", "one by one"],
)
def test_the_same_outputs(filled: str, more: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("FILLED", filled).replace("MORE", more))
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-5)  # float32: sums of 16 products


def test_single_ones_of_several_layers_need_a_person() -> None:
    filled = "nn.init.zeros_(self.rnn.bias_ih_l0)"
    report = rewritten.conversion(SCRIPT.replace("FILLED", filled).replace("MORE", ", 2")).report
    assert [(one.code, one.line) for one in report.diagnostics] == [("MIG204", 9)]


def test_a_loop_whose_turns_are_not_known_needs_a_person() -> None:
    filled = """for bias, _ in ((self.rnn.bias_ih_l0, 1), (self.rnn.bias_hh_l0, 2)):
            nn.init.zeros_(bias)"""
    report = rewritten.conversion(SCRIPT.replace("FILLED", filled).replace("MORE", "")).report
    assert [(one.code, one.line) for one in report.diagnostics] == [("MIG204", 10)]


SIZES = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.LSTM(3, width)
        self.deep = nn.GRU(width, 5, num_layers=2)

    def forward(self, x, state):
        return self.deep(self.rnn(x, state)[0])


net = Net(4)
size = net.rnn.num_layers, 2, net.rnn.hidden_size
y, last = net(torch.ones(6, 2, 3), (torch.zeros(*size), torch.zeros(size)))
shown = [*size, net.deep.num_layers, net.deep.hidden_size, net.deep.input_size, *y.shape, *last.shape]
"""


def test_sizes_of_networks_are_known_outside() -> None:
    theirs, ours = rewritten.both(SIZES)
    assert ours["shown"] == theirs["shown"] == [1, 2, 4, 2, 5, 4, 6, 2, 5, 2, 2, 5]


APPLIED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, num_layers=2, bidirectional=True)
        self.deep = nn.GRU(8, 5)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.deep(self.rnn(x)[0])[0][-1])


def start(m):
    if isinstance(m, nn.Linear):
        for name, param in m.named_parameters():
            if name == "bias":
                nn.init.zeros_(param)
            else:
                param.data.fill_(0.5)
    elif isinstance(m, nn.LSTM):
        FILLED
    elif type(m) is nn.GRU:
        for p in m.parameters():
            if p.dim() > 1:
                nn.init.constant_(p, 0.2)
            else:
                nn.init.constant_(p.data, -0.1)


net = Net()
net.apply(start)
y = net(torch.linspace(-1, 1, 24).reshape(4, 2, 3))
shown = [[float(v) for v in row] for row in y.detach()]
"""
IN_TURN = """for name, param in m.named_parameters():
            if "bias_ih" in name or name.find("bias_hh") != -1:
                nn.init.constant_(param, 0.1)
            elif name.startswith("weight_hh"):
                nn.init.constant_(param, -0.2)
            else:
                param.data.fill_(0.3)"""


def test_loops_of_functions_given_to_apply() -> None:
    theirs, ours = rewritten.both(APPLIED.replace("FILLED", IN_TURN))
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-5)  # float32: sums of 16 products


@pytest.mark.parametrize("test", ['"l0" in name', 'name.endswith("_reverse")', "param.shape[0] > 3"])
def test_loops_that_go_by_more_than_the_sort_of_weight_need_a_person(test: str) -> None:
    filled = f"for name, param in m.named_parameters():\n            if {test}:\n                nn.init.ones_(param)"
    report = rewritten.conversion(APPLIED.replace("FILLED", filled)).report
    assert "MIG204" in {one.code for one in report.diagnostics}

"""Calls that change their input in place, and what is read afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F

"""
MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.LeakyReLU(0.2, inplace=True)
        self.block = nn.Sequential(nn.ReLU(inplace=True), nn.Tanh())

    def forward(self, x):
{0}

net = Net()
out = net(torch.linspace(-1, 1, 5))
"""


def in_forward(*lines: str) -> str:
    return MODULE.format("".join(f"        {line}\n" for line in lines))


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.linspace(-1, 1, 5)\ny = F.relu(x, inplace=True)\nout = x + y\n",
        "x = torch.linspace(-1, 1, 5)\nF.leaky_relu(x, 0.1, True)\nout = x\n",
        "x = torch.linspace(-1, 1, 5)\ny = F.relu(x, inplace=False)\nout = x + y\n",
        "x = torch.linspace(-1, 1, 5)\nx = F.elu(x, inplace=True)\nout = x * 2\n",
        in_forward("self.act(x)", "return x"),
        in_forward("y = self.act(x)", "return x - 3 * y"),
        in_forward("y = self.block(x)", "return y"),
        in_forward("kept = x", "x = x * 3 - 1", "x = self.act(x)", "return x + kept"),
        in_forward("x = self.block(x)", "return x + self.act(x * 3)"),
        in_forward("y = self.block(x)", "return x + y"),
        in_forward("return x + self.block(x)"),
        in_forward("x = x - 2 * self.block(x)", "return x"),
        in_forward("return self.block(x) + x * 3"),
        in_forward("y = self.block(x) - torch.cos(x) * x", "return x + y"),
        in_forward("total, z = x.new_zeros(5), x", "total -= z.abs()", "return total + z"),
    ],
)
def test_a_changed_input_is_what_torch_left(text: str) -> None:
    ours, theirs = (rewritten.executed(code)["out"] for code in (str(rewritten.clean(HEAD + text).text), HEAD + text))
    np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), rtol=1e-6)


def test_names_bound_together_share_what_they_share_alone() -> None:
    found = rewritten.conversion(HEAD + in_forward("a, b = x, x", "a -= 1", "return a + b")).report.diagnostics
    assert [one.code for one in found] == ["MIG303"]


@pytest.mark.parametrize(
    "text",
    [
        in_forward("return x * 2 + self.block(x)"),
        in_forward("return torch.tanh(x) + self.block(x)"),
        in_forward("kept = x", "y = x + self.block(x)", "return y + kept"),
        in_forward("y = torch.exp(self.act(x))", "return x + y"),
        in_forward("kept = x", "x = self.act(x)", "return kept + x"),
        in_forward("x = x * 2", "kept = x", "x = self.act(x)", "return kept + x"),
    ],
)
def test_a_change_that_no_new_name_follows_is_refused(text: str) -> None:
    found = rewritten.conversion(HEAD + text).report.diagnostics
    assert [(one.code, "changed in place by" in one.message) for one in found] == [("MIG303", True)]


HANDED_THROUGH = """
def drop_path(x, rate=0.0, training=False):
    if rate == 0.0 or not training:
        return x
    kept = x.div(1 - rate)
    return kept


class DropPath(nn.Module):
    def forward(self, x):
        return drop_path(x, 0.0, self.training)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)
        self.drop = nn.Dropout(0.1)
        self.drop_path = DropPath()
        self.row = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.1))
        self.flat = nn.Sequential(nn.Identity(), nn.Flatten())
        self.pos = nn.Parameter(torch.ones(1, 5))

    def forward(self, x):
        h = self.fc(x)
        {0}


net = Net().eval()
out = net(torch.linspace(-1, 1, 10).view(2, 5))
"""


@pytest.mark.parametrize(
    "made", ["self.drop(h)", "self.drop_path(h)", "self.flat(h)", "F.dropout(h, 0.1, self.training)"]
)
def test_a_change_of_what_may_be_the_input_is_refused(made: str) -> None:
    found = rewritten.conversion(HEAD + HANDED_THROUGH.format(f"y = {made}; y += 1; return y + h")).report.diagnostics
    assert [one.code for one in found] == ["MIG303"]


@pytest.mark.parametrize(
    "lines",
    [
        "h = self.drop(h); h += 1; return h * h",
        "y = self.drop_path(h); y += 1; return y",
        "y = self.row(h); b, n = y.shape; y += self.pos[:, :n]; return y + h",
        "y = self.drop(h * 2); y += h; return y",
    ],
)
def test_a_change_of_what_nothing_else_reads(lines: str) -> None:
    assert rewritten.conversion(HEAD + HANDED_THROUGH.format(lines)).report.exit_code == 0

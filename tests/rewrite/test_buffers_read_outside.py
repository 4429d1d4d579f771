"""Buffers of a model that a script reads from outside, and buffers with the name of an argument."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten

NET = """import torch
import torch.nn as nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(3, width)
        self.register_buffer("table", torch.arange(width).float() / width)


class Net(Base):
    def __init__(self, width, high=2.0):
        super().__init__(width)
        self.register_buffer("scale", torch.tensor([1.0, high]))
        {more}

    def forward(self, x):
        {counted}
        return self.fc(x)[:, :2] * self.scale + self.table[0] {changed}


net = Net(4)
y = net(torch.ones(2, 3))
"""


def test_what_follows_from_the_fields_is_a_property() -> None:
    text = (
        NET.format(more="", changed="", counted="") + "told = [net.table.sum().item(), (2 * net.scale).max().item()]\n"
    )
    made = rewritten.clean(text)
    assert made.text.count("@property") == 2
    theirs, ours = rewritten.executed(text), rewritten.executed(made.text)
    np.testing.assert_allclose(ours["told"], theirs["told"], rtol=1e-6)


def test_one_made_of_a_variable_of_the_constructor() -> None:
    more = 'table = torch.ones(width); self.register_buffer("kept", table)'
    text = NET.format(more=more, changed="", counted="") + "told = [net.kept.sum().item()]\n"
    made = rewritten.clean(text)
    assert rewritten.executed(made.text)["told"] == rewritten.executed(text)["told"] == [4.0]


def test_one_that_is_set_twice_is_read_of_the_bound_model() -> None:
    more = 'self.register_buffer("kept", torch.zeros(1)); self.kept = torch.ones(1)'
    text = NET.format(more=more, changed="", counted="") + "told = [net.kept.sum().item()]\n"
    made = rewritten.clean(text)
    assert 'net.bind({"params": params}).kept.sum()' in made.text
    assert rewritten.executed(made.text)["told"] == rewritten.executed(text)["told"] == [1.0]


def test_one_that_a_forward_pass_changes_is_read_where_it_is_kept() -> None:
    text = NET.format(more='self.register_buffer("count", torch.zeros(1))', changed="", counted="self.count += 1")
    text += "net(torch.ones(1, 3))\ntold = [net.count.sum().item(), len(net.count)]\n"
    made = rewritten.clean(text)
    assert rewritten.executed(made.text)["told"] == rewritten.executed(text)["told"] == [2.0, 1]


def test_a_buffer_may_have_the_name_of_the_argument_that_it_is_made_of() -> None:
    text = NET.format(more='self.register_buffer("high", torch.tensor([high]))', changed="+ self.high", counted="")
    text = text.replace("Net(4)", "Net(4, 3.0)").replace("torch.ones(2, 3)", "torch.zeros(2, 3)")
    ours = rewritten.executed(rewritten.clean(text).text)
    bias = np.asarray(ours["params"]["fc"]["bias"])
    np.testing.assert_allclose(ours["y"][0], bias[:2] * [1.0, 3.0] + 3.0, rtol=1e-6)

"""Modules that are given lists from a command line, and an input that only some of their settings need."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, trained

SCRIPT = """import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def one_hot(indices, n):
    assert indices.max().item() < n
    return F.one_hot(indices.view(-1), n).to(torch.float64)


class Inner(nn.Module):
    def __init__(self, sizes, labels):
        super().__init__()
        self.labels = labels
        if labels:
            sizes[0] += labels
        self.net = nn.Sequential()
        for i, (a, b) in enumerate(zip([sizes[0]] + sizes[1:-1], sizes[1:])):
            self.net.add_module(name="L{:d}".format(i), module=nn.Linear(a, b))
            self.net.add_module(name="A{:d}".format(i), module=nn.Tanh())

    def forward(self, x, c):
        if self.labels:
            c = one_hot(c, n=self.labels)
            x = torch.cat([x, c], 1)
        return self.net(x)


class Net(nn.Module):
    def __init__(self, sizes, labels=0):
        super().__init__()
        assert type(sizes) == list
        self.inner = Inner(sizes, labels)

    def forward(self, x, c=None):
        return self.inner(x, c)


parser = argparse.ArgumentParser()
parser.add_argument(OPTION)
parser.add_argument("--labels", type=int, default=LABELS)
args = parser.parse_args([])
losses = []
x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = torch.arange(8) % 4
model = Net(sizes=args.layer_sizes, labels=args.labels)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    if args.labels:
        out = model(x, y)
    else:
        out = model(x)
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
OPTIONS = [
    '"--layer-sizes", nargs="+", type=int, default=[3, 5, 2]',
    '"-s", "--layer_sizes", type=list, default=[3, 5, 2]',
    '"-s", dest="layer_sizes", type=int, nargs=3, default=(lambda: [3, 5, 2])()',
]


@pytest.mark.parametrize("labels", [0, 4])
@pytest.mark.parametrize("option", OPTIONS)
def test_the_module_has_its_lists_and_its_inputs(option: str, labels: int, float64: None) -> None:
    text = SCRIPT.replace("OPTION", option).replace("LABELS", str(labels))
    theirs, ours = trained(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    made = rewritten.clean(text).text
    assert "sizes=tuple(args.layer_sizes)" in made
    own = rewritten.executed(made)["params"]["inner"]["net"]["layers_L0"]["kernel"]  # which `init` gives it
    assert own.shape == (3 + labels, 5)

"""Counts of weights, and of those that are trained, as scripts print them."""

import pytest

from tests.conformance import rewritten

SCRIPT = """
import numpy as np
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2, bias=False)
        FREEZE

    def forward(self, x):
        return self.head(self.body(x))

    def count(self):
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def trainable(model):
    return sum(p.numel() for p in filter(lambda p: p.requires_grad, model.parameters()))


net = Net()
AFTER
y = net(torch.ones(2, 4))
shown = trainable(net), COUNTED
"""
FROZEN = {
    "nothing": ("pass", "pass"),
    "by the constructor": ("for p in self.body.parameters():\n            p.requires_grad = False", "pass"),
    "by the script": ("pass", "net.body.requires_grad_(False)"),
}


@pytest.mark.parametrize("frozen", FROZEN)
@pytest.mark.parametrize(
    "counted",
    [
        "net.count()",
        "len([p for p in net.parameters() if p.requires_grad])",
        "len(list(filter(lambda p: p.requires_grad, net.parameters())))",
        "sum([np.prod(p.size()) for p in filter(lambda w: w.requires_grad, net.parameters())])",
        "sum(torch.numel(p) for p in net.parameters())",
        "sum(p.nelement() * p.element_size() for p in net.parameters() if p.requires_grad)",
    ],
)
def test_the_same_count(counted: str, frozen: str) -> None:
    inside, after = FROZEN[frozen]
    script = SCRIPT.replace("FREEZE", inside).replace("AFTER", after).replace("COUNTED", counted)
    theirs, ours = rewritten.both(script)
    assert ours["shown"] == theirs["shown"]


def test_no_test_is_left_where_nothing_is_frozen() -> None:
    made = rewritten.clean(
        SCRIPT.replace("FREEZE", "pass").replace("AFTER", "pass").replace("COUNTED", "trainable(net)")
    )
    assert made.text.count("return sum(p.size for p in jax.tree.leaves(params))") == 2


def test_a_list_with_a_name_of_its_own() -> None:
    listed = "None\nweights = [p for p in net.parameters() if p.requires_grad]\nshown = len(weights)"
    script = SCRIPT.replace("FREEZE", "pass").replace("AFTER", "pass").replace("COUNTED", listed)
    theirs, ours = rewritten.both(script)
    assert ours["shown"] == theirs["shown"] == 3

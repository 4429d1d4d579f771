"""Weights that are filled by functions and methods which constructors call, as agents of DDPG have them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import numpy as np
import torch
from torch import nn


def fanin_init(size, fanin=None):
    fanin = fanin or size[0]
    v = 1.0 / np.sqrt(fanin)
    return torch.Tensor(size).uniform_(-v, v)


class Actor(nn.Module):
    def __init__(self, states=3, hidden=400, init_w=3e-3):
        super().__init__()
        self.fc1 = nn.Linear(states, hidden)
        self.fc2 = nn.Linear(hidden, 1)
        CALL

METHOD
    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


torch.manual_seed(0)
actor = Actor()
top = actor(torch.ones(2, 3)).abs().max().item()
largest = [actor.fc1.weight.abs().max().item(), actor.fc2.weight.abs().max().item()]
"""
FILLING = """    def init_weights(self, init_w):
        self.fc1.weight.data = fanin_init(self.fc1.weight.data.size())
        self.fc2.weight.data.uniform_(-init_w, init_w)
"""
FORMS = {
    "a method": ("self.init_weights(init_w)", FILLING),
    "a function": (
        "self.fc1.weight.data = fanin_init(self.fc1.weight.data.size())\n"
        "        self.fc2.weight.data.uniform_(-init_w, init_w)",
        "",
    ),
    "a variable": (
        "v = 1.0 / np.sqrt(self.fc1.weight.data.size()[0])\n        self.fc1.weight.data.uniform_(-v, v)\n"
        "        self.fc2.weight.data.uniform_(-init_w, init_w)",
        "",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_bounds_are_torchs(name: str) -> None:
    call, method = FORMS[name]
    theirs, ours = rewritten.both(HEAD.replace("CALL", call).replace("METHOD\n", method and f"{method}\n"))
    for one in (theirs, ours):  # 1,200 draws of U(-v, v) come close to v: 0.05 = 1 / sqrt(400), and 400 to 0.003
        np.testing.assert_allclose(one["largest"], [0.05, 0.003], rtol=0.02)


def test_a_method_that_others_call_stays() -> None:
    call, method = FORMS["a method"]
    text = HEAD.replace("CALL", call).replace("METHOD\n", f"{method}\n") + "actor.init_weights(1.0)\n"
    assert "MIG204" in {one.code for one in rewritten.conversion(text).report.diagnostics}

"""Models whose forward pass goes through other layers where an argument says so: all of them have weights."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(2, 2)
        self.a = nn.Linear(2, 3)
        self.b = nn.Linear(2, 3)
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(2, 3)})
        for p in self.parameters():
            nn.init.constant_(p, 0.2)

    def take(self, x):
        return self.b(x)

    def forward(self, x, task="a", scale=1.0):
        x = self.trunk(x) * scale
        FORWARD


x = torch.ones(1, 2)
net = Net()
"""
FORWARDS = {
    "a branch that ends": 'if task == "a":\n            return self.a(x)\n        return self.b(x)',
    "two sides": """if task == "a":
            x = self.a(x)
        else:
            x = self.b(x)
        return 2 * x""",
    "an expression": 'return self.a(x) if task == "a" else self.b(x)',
    "a method": 'if task != "a":\n            return self.take(x)\n        return self.a(x)',
    "a dict of parts": "return self.heads[task](x)",
}
CALLS = {
    "by place": 'y = net(x, "a") + 2 * net(x, "b")\n',
    "by default, and by name": 'y = net(x) + 2 * net(x, task="b", scale=3.0)\n',
    "the other one first": 'y = net(x, "b")\ny = y + net(x)\n',
    "in a step": """optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    loss = net(x).sum() + net(x, "b").square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
y = net(x, "b")
""",
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_outputs_are_torchs(forward: str, calls: str) -> None:
    theirs, ours = rewritten.both(NET.replace("FORWARD", forward) + calls)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)  # sums of 2, five times


def test_the_model_is_made_by_a_call_of_each() -> None:
    made = rewritten.clean(NET.replace("FORWARD", FORWARDS["an expression"]) + CALLS["by place"]).text
    assert 'method=lambda model, x: (model(x, task="a"), model(x, task="b"))' in made


@pytest.mark.parametrize(
    "code",
    ['y = net(x, "a")\n', "y = net(x, scale=2.0) + net(x, scale=3.0)\n", 'y = net(x, "b") + net(2 * x, "b")\n'],
)
def test_one_way_is_one_call(code: str) -> None:
    """What only scales decides nothing, and what no call goes through needs no weights."""
    made = rewritten.clean(NET.replace("FORWARD", FORWARDS["two sides"]) + code).text
    assert "method=lambda" not in made


MORE = 'x = self.a(x)\n        if task == "b":\n            x = self.b(x @ torch.ones(3, 2))\n        return x'


@pytest.mark.parametrize("calls", ['y = net(x) + net(x, "b")\n', 'y = net(x, "b") + net(x)\n'])
def test_a_call_that_goes_through_more_is_enough(calls: str) -> None:
    text = NET.replace("FORWARD", MORE) + calls
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)
    made = rewritten.clean(text).text
    assert 'net.init(subkey, x, task="b")' in made

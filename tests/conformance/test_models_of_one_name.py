"""A script whose model gives its name to one of another class, as notebooks have it."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """
import torch
import torch.nn as nn


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(3, 2)
        nn.init.constant_(self.f.weight, 0.1)
        nn.init.constant_(self.f.bias, 0.2)

    def forward(self, x):
        return self.f(x)


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Conv1d(3, 2, 1)
        nn.init.constant_(self.f.weight, 0.3)
        nn.init.constant_(self.f.bias, 0.1)

    def forward(self, x):
        return self.f(x).mean(-1)


losses = []
model = Flat()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(2):
    x = torch.ones(4, 3)
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model = Rows().to("cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(2):
    x = torch.ones(4, 3, 5)
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


@pytest.mark.parametrize("again", ["Rows().to", "Flat().to"])
def test_each_is_made_by_what_it_is_called_with(again: str) -> None:
    text = SCRIPT.replace("Rows().to", again).replace(
        "ones(4, 3, 5)", "ones(4, 3, 5)" if "Rows" in again else "ones(5, 3)"
    )
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)


def test_functions_that_read_the_name_are_given_what_their_calls_give() -> None:
    """The example of each model is that of the calls below it."""
    step = "    loss = model(x).pow(2).mean()\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    function = f"def train(x):\n{step}    return loss.item()\n\n\nlosses = []\n"
    text = SCRIPT.replace(step, "").replace("    losses.append(loss.item())\n", "    losses.append(train(x))\n")
    theirs, ours = rewritten.both(text.replace("losses = []\n", function))
    assert len(theirs["losses"]) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)

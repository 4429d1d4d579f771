"""Modules that train themselves and make their parts in a method of the constructor: four steps in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


class CNN(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self._build_net()

    def _build_net(self):
        \"\"\"The layers.\"\"\"
        # the only layer
        self.fc = nn.Linear(4, 3)
        nn.init.constant_(self.fc.weight, 0.5)
        nn.init.constant_(self.fc.bias, 0.5)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def forward(self, x):
        return torch.tanh(self.fc(x))

    def train_model(self, x, y):
        self.train()
        self.optimizer.zero_grad()
        hypothesis = self.forward(x)
        self.cost = self.criterion(hypothesis, y)
        self.cost.backward()
        self.optimizer.step()
        return self.cost


x = torch.linspace(-1, 2, 24).reshape(6, 4).cos()
model = CNN(3)
losses = []
for epoch in range(4):
    cost = model.train_model(x, x[:, :3])
    losses.append(cost.item())
"""


def test_the_steps_are_torchs() -> None:
    theirs, ours = rewritten.both(TEXT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, four steps
    made = rewritten.clean(TEXT).text
    assert "# the only layer" in made and "_build_net" not in made
    assert '        cost = metrics["loss"]\n        self.cost = cost\n' in made  # whatever is called so elsewhere


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self._build_net()\n", "self._build_net()\n        self._build_net()\n"),
        ("        self.fc = nn.Linear(4, 3)\n", "        width = 3\n        self.fc = nn.Linear(4, width)\n"),
        ("        self.criterion = nn", "        if self.width > 3:\n            return\n        self.criterion = nn"),
    ],
)
def test_another_method_stays(old: str, new: str) -> None:
    assert old in TEXT
    made = rewritten.conversion(TEXT.replace(old, new))
    assert "def _build_net" in made.text

"""Shortcuts that are a lambda in one case and layers in the other: `self.downsample = lambda x: x`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SOURCE = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        if inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        else:
            self.downsample = lambda x: x

    def forward(self, x):
        return torch.relu(self.conv(x) + self.downsample(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block(2, 2), Block(2, 4))
        self.fc = nn.Linear(4, 1)
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.constant_(m.weight, 0.1)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(self.layers(x).mean((2, 3)))


losses = []
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 128).reshape(4, 2, 4, 4)
y = torch.tensor([[0.1], [0.4], [-0.2], [0.3]])
for step in range(4):
    loss = (net(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
IMPORTS = {
    "from torch import nn": ("from torch import nn", "nn."),
    "import torch.nn": ("import torch.nn", "torch.nn."),
    "another name": ("import torch.nn as layers", "layers."),
}


@pytest.mark.parametrize("imports", IMPORTS)
def test_losses_are_torchs(imports: str, float64: None) -> None:
    line, prefix = IMPORTS[imports]
    source = SOURCE.replace("nn.", prefix).replace(f"from torch import {prefix[:-1]}", "from torch import nn")
    source = source.replace("from torch import nn", line, 1)
    theirs, ours = rewritten.both(source)
    assert len(set(theirs["losses"])) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)  # float32


def test_other_lambdas_stay_functions() -> None:
    text = rewritten.conversion(SOURCE.replace("lambda x: x\n", "lambda x: 2 * x\n")).report.as_text()
    assert "MIG201" in text

"""Tests of names of weights: by the number of a module in a list of unknown length they are not decided; freezing in a
function that makes the model."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)) for _ in range(depth)]
        )
        self.head = nn.Linear(4, 2)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.constant_(p, 0.1)
            else:
                nn.init.ones_(p)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x * torch.arange(4.0))
        return self.head(x)


def main(depth):
    model = Net(depth)
    for name, p in model.named_parameters():
        if TEST:
            p.requires_grad = False
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    losses = []
    for _ in range(3):
        loss = model(torch.ones(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses = main(len([1, 2]))
"""


@pytest.mark.parametrize("test", ['name.startswith("layers")', '"head" not in name', '"head.weight" == name'])
def test_a_function_that_makes_a_model_may_freeze_it(test: str) -> None:
    source = SCRIPT.replace("TEST", test)
    expected = rewritten.executed(source)["losses"]
    found = rewritten.executed(rewritten.clean(source).text)["losses"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert expected[0] != expected[2]


@pytest.mark.parametrize(
    "test", ['"layers.0." in name', 'name.split(".")[1] == "0"', 'name == "layers.1.2.weight"', '"layers.1" in name']
)
def test_modules_by_number_are_refused(test: str) -> None:
    found = rewritten.conversion(SCRIPT.replace("TEST", test)).report.diagnostics
    assert {"MIG302"} <= {one.code for one in found}
    assert any("which parameters" in one.message for one in found)

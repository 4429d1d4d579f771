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


FROM_THE_END = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        first = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.ReLU())
        self.rows = nn.ModuleList([first, nn.Linear(4, 2)])
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.1)
                nn.init.ones_(m.bias)

    def forward(self, x):
        for row in self.rows:
            x = row(x)
        return x


model = Net()
for p in model.parameters():
    p.requires_grad = False
for p in model.PART.parameters():
    p.requires_grad = True
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
losses = []
for _ in range(3):
    loss = (model(torch.arange(8.0).reshape(2, 4)) - torch.arange(4.0).reshape(2, 2)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


@pytest.mark.parametrize("part", ["rows[-1]", "rows[-2][-2]", "rows[0][-4]"])
def test_parts_by_numbers_from_the_end(part: str) -> None:
    source = FROM_THE_END.replace("PART", part)
    expected = rewritten.executed(source)["losses"]
    found = rewritten.executed(rewritten.clean(source).text)["losses"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert expected[0] != expected[2]


def test_a_number_from_the_end_of_a_list_of_unknown_length() -> None:
    source = SCRIPT.replace("TEST", "True").replace(
        "    optimizer =", "    model.layers[-1].requires_grad_(True)\n    optimizer ="
    )
    expected = rewritten.executed(source)["losses"]
    found = rewritten.executed(rewritten.clean(source).text)["losses"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert expected[0] != expected[2]

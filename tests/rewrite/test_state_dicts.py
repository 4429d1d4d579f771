"""State dicts that a script looks into, or saves with something beside the weights."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

SOURCE = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.fc(x)) * self.scale


model = Net()
print(model(torch.ones(2, 3)))
weights = model.state_dict()
weights[KEY] = torch.ones(4)
torch.save(weights, "net.pt")
"""


def test_an_entry_beside_the_weights_is_no_look_into_them() -> None:
    made = convert(parse("x.py", SOURCE.replace("KEY", '"classes"')))
    assert made.report.diagnostics == ()
    assert 'weights = {"params": params, "batch_stats": batch_stats}\n' in made.text


@pytest.mark.parametrize("key", ['"fc.bias"', '"scale"', "key"])
def test_an_entry_in_place_of_a_weight_is_one(key: str) -> None:
    made = convert(parse("x.py", SOURCE.replace("KEY", key)))
    assert 'weights = {"params"' not in made.text


SCRIPT = """import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 3)


def train():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()


train()
weights = model.state_dict()
{rest}
"""


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ('weights["bias"].copy_(torch.ones(1))\nweights["weight"] = x[:1]', "changes as a dict and as the weights"),
        ("for value in weights.values():\n    value.zero_()", "may be seen under another name"),
        ('print(weights["bias"])\ntrain()\nprint(weights["bias"])', "has earlier weights of model than in torch"),
    ],
)
def test_what_a_dict_does_not_do(rest: str, message: str) -> None:
    found = convert(parse("train.py", SCRIPT.format(rest=rest))).report.diagnostics
    assert [message in one.message for one in found] == [True], [one.message for one in found]


def test_what_is_only_saved_stays_the_parameters() -> None:
    text = convert(parse("train.py", SCRIPT.format(rest='torch.save(weights, "weights.pt")'))).text
    assert "weights = params\n" in text and "state_dict" not in text

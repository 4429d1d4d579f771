"""State dicts that are saved with something beside the weights."""

from __future__ import annotations

import pytest

from migrate.pipeline import convert
from migrate.source import parse

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

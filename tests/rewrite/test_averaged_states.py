"""Averages of state dicts that are refused, since Flax has something else than the dict."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SCRIPT = """from copy import deepcopy

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        MORE

    def forward(self, x):
        return self.b(self.a(x))


model = Net()
average = deepcopy(model)
x = torch.ones(2, 4)
model(x)
weights = model.state_dict()
with torch.no_grad():
    for k, v in average.state_dict().items():
        BODY
"""
AVERAGED = "v.copy_(0.9 * v + 0.1 * weights[k])"


@pytest.mark.parametrize(
    ("more", "body", "told"),
    [
        ("self.b.weight = self.a.weight", AVERAGED, "a second time"),
        ('self.register_buffer("grid", torch.ones(4))', AVERAGED, "no weight in Flax"),
        ("self.norm = nn.BatchNorm1d(4, momentum=None)", AVERAGED, "and a number"),
        ("pass", 'v.copy_(weights[k] if "bias" in k else 0.9 * v + 0.1 * weights[k])', "the name of a weight"),
    ],
)
def test_declined(more: str, body: str, told: str) -> None:
    source = SCRIPT.replace("MORE", more).replace("BODY", body)
    if "norm" in more:
        source = source.replace("self.a(x))", "self.norm(self.a(x)))")
    report = rewritten.conversion(source).report
    assert any(found.code == "MIG306" and told in found.message for found in report.diagnostics), report.as_text()

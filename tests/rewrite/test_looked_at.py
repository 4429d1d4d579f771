"""Objects that have a model which others train: what is not known of them is refused."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 4)

    def forward(self, x):
        return self.hidden(x).relu()


class Total:
    def __init__(self, model):
        self.model = model
        self.totals = []

    def add(self):
        self.totals.append(sum(p.sum().item() for p in self.model.parameters()))


class Other:
    def add(self):
        print("other")


def train(model, optimizer, total):
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        total.add()


x = torch.randn(4, 3)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
SECOND = """second = Net()
train(second, torch.optim.SGD(second.parameters(), lr=0.1), Total(second))
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train(model, optimizer, Total(model))\n", ""),
        ("total = Total(model) if len(x) else None\ntrain(model, optimizer, total)\n", ""),
        ("train(model, optimizer, Total(model))\n" + SECOND, "here they have another name"),
        ("train(model, optimizer, Total(model) if len(x) > 2 else Other())\n", "total.add may be Total.add"),
    ],
)
def test_who_has_the_weights(text: str, said: str) -> None:
    made = convert(parse("x.py", HEAD + text))
    assert {each.code for each in made.report.diagnostics} == ({"MIG404"} if said else set()), made.report.as_text()
    assert said in made.report.as_text()
    assert said or "total.add(params)" in made.text or "total.add(model_params)" in made.text

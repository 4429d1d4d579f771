"""An example for `model.init` takes no batch away that training would have had: from objects of unknown kind."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
from batches import read

data = read("mnist")
width = data.train.images.shape[1]
MODEL


def sample(size):
    x, _ = data.train.next_batch(size)
    return torch.from_numpy(x)


def indirectly(size):
    return sample(size)


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    BATCH
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BATCHES = ["x = torch.from_numpy(data.train.next_batch(32)[0])", "x = sample(32)", "x = indirectly(32)"]


@pytest.mark.parametrize("batch", BATCHES)
def test_zeros_where_the_layers_tell_how_many(batch: str) -> None:
    model = "model = nn.Sequential(nn.Linear(width, 8), nn.PReLU(), nn.Linear(8, 1))"
    made = rewritten.clean(SCRIPT.replace("MODEL", model).replace("BATCH", batch))
    assert "model.init(subkey, jnp.zeros((1, width)))" in made.text


@pytest.mark.parametrize("batch", BATCHES)
def test_refused_where_they_do_not(batch: str) -> None:
    model = "model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.LazyLinear(1))"
    made = rewritten.conversion(SCRIPT.replace("MODEL", model).replace("BATCH", batch))
    assert ("MIG402", 7) in {(found.code, found.line) for found in made.report.diagnostics}

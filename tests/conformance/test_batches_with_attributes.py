"""Batches that are objects: named tuples of a data set, what `collate_fn` makes. A step takes what is read of them."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """from collections import namedtuple

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

Sample = namedtuple("Sample", ["text", "label"])


class Data(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        x = torch.linspace(0, i, 4)
        return Sample(x, (x.sum() > 8).float())


class Batch:
    def __init__(self, samples):
        self.text = torch.stack([one.text for one in samples])
        self.label = torch.stack([one.label for one in samples])
        self.count = len(samples)
        self.kind, self.full = f"of {len(samples)}", len(samples) > 3
        self.mask, self.weight_of = None, self.label + 1


loader = DataLoader(Data(), batch_size=4, collate_fn=COLLATE)
model = nn.Linear(4, 1)
nn.init.constant_(model.weight, 0.1)
nn.init.zeros_(model.bias)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []


def train(model, loader):
    for batch in loader:
        optimizer.zero_grad()
        LOSS
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def evaluate(model, loader):
    total = 0.0
    with torch.no_grad():
        for batch in loader:
            total += criterion(model(batch.text).squeeze(1), batch.label).item() * batch.text.size(0)
    return total / len(loader.dataset)


train(model, loader)
losses.append(evaluate(model, loader))
"""
LOSSES = {
    "attributes": "loss = criterion(model(batch.text).squeeze(1), batch.label)",
    "named": "text, label = batch.text, batch.label\n        loss = criterion(model(text).squeeze(1), label)",
    "methods": "loss = criterion(model(batch.text.float() * 2).squeeze(1), batch.label.view(-1))",
    "shapes": "loss = criterion(model(batch.text).view(batch.text.shape[0]), batch.label)",
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("collate", ["None", "Batch"])
def test_the_same_losses(collate: str, loss: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("COLLATE", collate).replace("LOSS", LOSSES[loss]))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, three steps


def test_numbers_of_a_batch() -> None:
    loss = "loss = criterion(model(batch.text).squeeze(1), batch.label) / batch.count"
    theirs, ours = rewritten.both(SCRIPT.replace("COLLATE", "Batch").replace("LOSS", loss))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize(
    "test",
    [
        'batch.kind == "of 4"',
        "batch.full",
        "batch.count > 3 and batch.full",
        "batch.mask is None",
        "batch.mask is not None",
        "batch.weight_of is not None",
        "batch.label.sum() > 1",
    ],
)
def test_what_the_loss_goes_by(test: str) -> None:
    loss = (
        f"loss = criterion(model(batch.text).squeeze(1), batch.label)\n        if {test}:\n            loss = loss * 2"
    )
    loss += "\n        if batch.mask is not None:\n            loss = loss * batch.mask.sum()"
    loss += "\n        if batch.weight_of is not None:\n            loss = loss * batch.weight_of.mean()"
    theirs, ours = rewritten.both(SCRIPT.replace("COLLATE", "Batch").replace("LOSS", loss))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, three steps


def test_a_step_takes_what_is_read() -> None:
    made = rewritten.clean(SCRIPT.replace("COLLATE", "Batch").replace("LOSS", LOSSES["attributes"]))
    assert "opt_state, text, label):" in made.text

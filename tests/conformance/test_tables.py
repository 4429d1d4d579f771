"""Embeddings that start from a table, frozen or not, and are read as a matrix."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, trained

TABLES = """import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


def waves(rows, width):
    return torch.sin(torch.arange(rows)[:, None] * torch.linspace(0, 1, width))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Embedding.from_pretrained(waves(3, 4))
        self.words = nn.Embedding.from_pretrained(waves(6, 4), freeze=False, padding_idx=1)
        self.copied = nn.Embedding(6, 4)
        self.copied.weight.data.copy_(2 * waves(6, 4))
        self.still = nn.Embedding(6, 4, padding_idx=0)
        self.still.weight = nn.Parameter(waves(6, 4), requires_grad=False)
        self.kept = nn.Embedding(6, 4)
        self.kept.weight.data = waves(6, 4) - 1
        self.kept.weight.requires_grad = False
        self.head = nn.Linear(4, 2)
        self.row = nn.Sequential(nn.Tanh(), nn.Linear(4, 3))
        self.row[1].bias.data.copy_(torch.tensor([1, 0, -2], dtype=torch.float))

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(3)) + self.copied(x) * self.still(x) + self.kept(x)
        return F.linear(torch.tanh(h), self.words.weight).sum(-1, keepdim=True) + self.head(h) + self.row(h).mean()


x = torch.tensor([[0, 1, 2], [5, 4, 1]])
losses = []
model = Net()
optimizer = optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.3)
for step in range(6):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def test_they_train_as_in_torch(float64: None) -> None:
    theirs, ours = trained(TABLES)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_they_start_as_in_torch() -> None:
    theirs = rewritten.executed(TABLES.partition("optimizer =")[0])["model"]
    ours = rewritten.executed(str(rewritten.clean(TABLES).text).partition("optimizer =")[0])["params"]
    for name in ("places", "words", "copied", "still", "kept"):
        table = getattr(theirs, name).weight.detach().numpy()
        np.testing.assert_allclose(np.asarray(ours[name]["embedding"]), table, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(ours["row"]["layers_1"]["bias"], theirs.row[1].bias.detach().numpy())

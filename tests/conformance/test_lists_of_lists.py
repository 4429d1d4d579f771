"""Models that are made with tables of settings, lists of lists, and with weights before there is an example."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, rows, classes=2):
        super().__init__()
        for row in rows:
            assert len(row) == 3
        width = 3
        self.stem = nn.Sequential(nn.Conv2d(width, rows[0][0], 3, padding=1), nn.ReLU())
        width = rows[0][0]
        blocks = []
        for inside, outside, kernel in rows:
            for i in range(2):
                blocks.append(nn.Conv2d(width if i == 0 else outside, outside, kernel, padding=kernel // 2))
            width = outside
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean([2, 3]))


def small():
    rows = [[4, 5, 3], [5, 6, 1]]
    return Net(rows)


def steps(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


"""
MADE = {
    "under a name": "small()",
    "written out": "Net([[4, 5, 3], [5, 6, 1]])",
    "a tuple of lists": "Net(([4, 5, 3], [5, 6, 1]))",
    "tuples": "Net(((4, 5, 3), (5, 6, 1)))",
}


@pytest.mark.parametrize("how", MADE)
def test_tables_can_be_hashed(how: str) -> None:
    """jit looks a module up by what it was made with."""
    end = f"model = {MADE[how]}\nlosses = steps(model, torch.ones(2, 3, 6, 6), torch.tensor([0, 1]))\n"
    theirs, ours = rewritten.both(HEAD + end)
    assert len(ours["losses"]) == len(theirs["losses"]) == 3 and np.isfinite(ours["losses"]).all()
    assert hash(ours["model"]) == hash(ours["model"].clone())


ASKED = """model = small()
before = sum(p.numel() for p in model.parameters())
for name in input().split():
    for images, labels in torch.utils.data.DataLoader(torch.load(name), batch_size=4):
        losses = steps(model, images, labels)
"""


def test_channels_that_a_variable_of_the_constructor_tells() -> None:
    """The example comes before the data: what the first convolution takes, in a model that averages to one size."""
    made = rewritten.clean(HEAD + ASKED)
    assert "jnp.zeros((1, 3, 64, 64))" in made.text
    ours = rewritten.executed(made.text[: made.text.index("for name in")])
    assert ours["before"] == rewritten.executed(HEAD + ASKED[: ASKED.index("for name in")])["before"]


@pytest.mark.parametrize(
    "change",
    [
        ("width = 3\n", "width = 3\n        for _ in rows:\n            width = 3\n"),
        ("width = 3\n", "width = 3 if classes else 1\n        width += 0\n"),
        (".mean([2, 3])", "[:, :, 0, 0]"),
    ],
)
def test_what_is_not_told_needs_an_example(change: tuple[str, str]) -> None:
    assert change[0] in HEAD
    made = rewritten.conversion(HEAD.replace(*change) + ASKED)
    assert "MIG402" in {found.code for found in made.report.diagnostics}

"""What `torch.LongTensor(x)` makes of numpy's arrays: data where it is known to be one, never a guess."""

from __future__ import annotations

import numpy as np

from migrate.pipeline import convert
from migrate.source import parse
from tests.conformance.rewritten import executed

TEXT = """\
import numpy as np
import torch
import torch.nn as nn


def labels_of(rows):
    labels = np.array([number for _ in range(rows) for number in range(rows)])
    return torch.LongTensor(labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, tokens):
        return self.table(tokens)


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(2):
    tokens = torch.LongTensor(np.random.randint(0, 5, 8))
    loss = model(tokens).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GUESSED = """

def of_either(labels):
    if len(labels) > 3:
        labels = np.array([1])
    return torch.LongTensor(labels)
"""


def test_arrays_and_the_example_of_a_drawn_one() -> None:
    made = convert(parse("x.py", TEXT))
    assert made.report.exit_code == 0, made.report.as_text()
    assert "np.zeros(8, int)" in made.text  # an index must be whole
    names = executed(made.text)
    assert np.array_equal(names["labels_of"](2), [0, 1, 0, 1])


def test_what_may_be_a_size_is_refused() -> None:
    assert "labels may be data or a size" in convert(parse("x.py", TEXT + GUESSED)).report.as_text()

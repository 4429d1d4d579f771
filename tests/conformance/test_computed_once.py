"""What a rule writes more than once is computed once: a module draws, and counts, at each call."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

DROPPING = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        values, indices = {}
        return 2 * x.gather(1, indices[:, None])[:, 0] - values


net = Net()
out = net(torch.linspace(1, 2, 32 * 64).reshape(32, 64))
"""


@pytest.mark.parametrize("written", ["self.drop(x).max(1)", "torch.max(self.drop(x), dim=1)"])
def test_values_and_indices_are_of_one_draw(written: str) -> None:
    source = DROPPING.format(written)
    for text in (str(rewritten.clean(source).text), source):
        np.testing.assert_array_equal(np.asarray(rewritten.executed(text)["out"].tolist()), np.zeros(32))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("net(x).max(1)[1]", "eval_step(params, x).argmax(axis=1)"),
        ("net(x).sort(dim=1)[0]", "jnp.sort(eval_step(params, x), axis=1)"),
        ("torch.min(net(x), 1)[-2]", "eval_step(params, x).min(axis=1)"),
    ],
)
def test_the_part_that_is_taken_is_written_alone(written: str, expected: str) -> None:
    source = f"import torch\nimport torch.nn as nn\n\nnet = nn.Linear(3, 4)\nx = torch.ones(2, 3)\nout = {written}\n"
    assert f"\nout = {expected}\n" in str(rewritten.clean(source).text)

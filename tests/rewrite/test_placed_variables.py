"""`Variable(x)` takes tensors alone: what it is given is one, whatever is known of it."""

from __future__ import annotations

import torch

from tests.conformance import rewritten

SCRIPT = """import torch
from torch.autograd import Variable


class Trainer:
    def __init__(self, on_gpu, index=0):
        self.on_gpu, self.index = on_gpu, index

    def placed(self, x):
        if self.on_gpu:
            return Variable(x).cuda(self.index)
        return Variable(x)

    def mean(self, rows):
        return [self.placed(row).view(-1).mean() for row in rows]
"""


def test_what_is_not_known_is_an_array_then() -> None:
    made = rewritten.clean(SCRIPT).text
    assert "return jnp.asarray(x)" in made and ".cuda" not in made
    rows = [torch.ones(2, 2), torch.full((3,), 2.0)]  # as torch's data loading gives them
    assert [float(one) for one in rewritten.executed(made)["Trainer"](True).mean(rows)] == [1.0, 2.0]

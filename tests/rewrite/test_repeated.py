"""One conversion after another in one process, as of many files."""

from __future__ import annotations

import libcst as cst

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """
import torch
from torch import nn
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader([(torch.ones(3), torch.zeros(2))], batch_size=1):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


def known() -> int:
    """How many classes of visitors Python knows: a question of an abstract class may go through all of them."""
    waiting, seen = [cst.CSTTransformer, cst.CSTVisitor], set[type]()
    while waiting:
        one = waiting.pop()
        seen.add(one)
        waiting += [each for each in one.__subclasses__() if each not in seen]
    return len(seen)


def test_no_class_is_made_anew() -> None:
    convert(parse("x.py", SCRIPT))
    before = known()
    convert(parse("y.py", SCRIPT))
    assert known() == before

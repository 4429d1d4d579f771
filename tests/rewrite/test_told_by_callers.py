"""Losses that tell something outside: it is told what torch tells, in torch's order, by what calls them."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import board
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2, bias=False)
        torch.nn.init.constant_(self.model.weight, 0.3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.step = 0

    def tell(self, value):
        board.log("told", value, self.step)

    def loss(self, x, at):
        out = self.model(x)
        size = out.square().mean()
        LOG
        return size + out.abs().mean()

    def fit(self, x):
        for number in range(3):
            CALL
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            board.log("loss", loss.item(), number)


Trainer().fit(torch.arange(12.0).reshape(3, 4) / 10)
"""
CALL = "loss = self.loss(x, number)"
SIZE = 'board.log("size", size.item(), at)'


def script(log: str, call: str = CALL) -> str:
    lines = [re.sub(r"^(\s*)LOG", lambda m: log.replace("\n", f"\n{m[1]}").join([m[1], ""]), SCRIPT, flags=re.M)]
    return re.sub(r"^(\s*)CALL", lambda m: call.replace("\n", f"\n{m[1]}").join([m[1], ""]), lines[0], flags=re.M)


CASES = {
    "a number": script(SIZE),
    "an array": script('board.log("size", size, at)'),
    "of its object": script('board.log("size", size, self.step)'),
    "by a method": script("self.tell(size)"),
    "now and then": script(f"if self.step % 2 == 0:\n    {SIZE}\nelse:\n    board.log('odd', -size, at)"),
    "several": script(f'{SIZE}\nmost = out.max()\nboard.log("most", most, at + 1)'),
    "without gradients": script(
        f"with torch.no_grad():\n    most = out.max()\n    board.log('most', most, at)\n{SIZE}"
    ),
    "in a product": script(SIZE, "loss = 2 * self.loss(x, number)"),
    "twice": script(SIZE, "first = self.loss(x, number)\nloss = first + self.loss(x * 2, number)"),
    "of a sum": script("most = out.max()\nboard.log('both', size + most, at)"),
}


def told_by(run: Any) -> list[tuple[Any, ...]]:
    """What a script tells a module called board."""
    told: list[tuple[Any, ...]] = []
    board = types.ModuleType("board")
    board.__dict__["log"] = lambda *values: told.append(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "board", board)
        run()
    return [(name, float(value.detach() if hasattr(value, "detach") else value), at) for name, value, at in told]


@pytest.mark.parametrize("case", CASES)
def test_what_is_told_is_what_torch_tells(case: str) -> None:
    theirs = told_by(lambda: exec(CASES[case], {}))
    made = rewritten.clean(CASES[case]).text
    ours = told_by(lambda: rewritten.executed(made))
    assert [(name, at) for name, _, at in ours] == [(name, at) for name, _, at in theirs]
    np.testing.assert_allclose([value for _, value, _ in ours], [value for _, value, _ in theirs], rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        script(f"{SIZE}\nsize = size * 2"),  # torch has told of what it was
        script(f"{SIZE}\nsize.mul_(2)"),
        script('board.log("size", size.item() + self.model.weight.sum().item(), at)'),  # the step changes them
        script(f"for _ in range(2):\n    {SIZE}"),
        script("both = {'size': size}\nboard.log(str(sorted(both)), both['size'], at)"),  # jit sorts a dict
        script(f"if out.max() > 0:\n    {SIZE}\n    return size"),
        script(SIZE, "loss = 0.0\nfor number in range(2):\n    loss = loss + self.loss(x, number)"),
    ],
)
def test_what_would_be_told_otherwise_is_refused(text: str) -> None:
    assert rewritten.conversion(text).report.exit_code == 1


def test_what_only_the_board_takes_is_no_argument() -> None:
    made = rewritten.clean(script(SIZE)).text
    assert "def loss(self, params, x):" in made
    assert 'board.log("size", size.item(), number)' in made

"""The mode of a model after a loop or a function that has several ways out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn

x = torch.arange(12.0).reshape(3, 4)
model = nn.BatchNorm1d(4)


def fit(model, turns):
    for turn in range(turns):
        model.train()
        model(x)
        if turn == 1:
            model.eval()
            return turn
    return turns


WAY
with torch.no_grad():
    y = model(x)
"""
BREAK = """for turn in range(3):
    if turn == 2:
        model.eval()
        break
    model.train()
    model(x)
"""
CONTINUE = """for turn in range(TURNS):
    model.train()
    model(x)
    if turn > 0:
        model.eval()
        continue
"""
SURE = """for turn in range(3):
    model.train()
    model(x)
    model.eval()
"""


@pytest.mark.parametrize("way", [BREAK, "fit(model, 3)", CONTINUE.replace("TURNS", "2")])
def test_ways_out_in_another_mode_are_refused(way: str) -> None:
    found = rewritten.conversion(SCRIPT.replace("WAY", way)).report.diagnostics
    assert [one.code for one in found] == ["MIG403"]


def test_a_loop_that_surely_has_a_turn_leaves_its_mode() -> None:
    source = SCRIPT.replace("WAY", SURE)
    expected = rewritten.executed(source)["y"].numpy()
    found = np.asarray(rewritten.executed(rewritten.clean(source).text)["y"])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_loop_that_may_have_none_does_not() -> None:
    source = SCRIPT.replace("WAY", "import sys\n" + SURE.replace("3", "len(sys.argv)"))
    assert [one.code for one in rewritten.conversion(source).report.diagnostics] == ["MIG403"]


PRETRAINED = """import torch
import torch.nn as nn


class Whole(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


x = torch.arange(12.0).reshape(3, 4)
part = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
part(x)
part.eval()
part(x)
model = Whole(part)
SAID
y = model(x)
"""


@pytest.mark.parametrize(("said", "codes"), [("", ["MIG403"]), ("model.eval()", []), ("model.train()", [])])
def test_a_part_keeps_its_mode_until_its_owner_is_told_one(said: str, codes: list[str]) -> None:
    found = rewritten.conversion(PRETRAINED.replace("SAID", said)).report.diagnostics
    assert [one.code for one in found] == codes

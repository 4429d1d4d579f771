"""Methods in place on rows of a tensor that a loop counts, and on what a statement has just made."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

ROWS = """import torch

p = torch.arange(12.0).reshape(3, 4) / 10
places = torch.tensor([[0, 1, 1, 3], [2, 2, 2, 2], [3, 0, 0, 1]]).float()


def projected(p, places):
    told = torch.zeros_like(p)
    for i in range(told.size(0)):
        told[i].index_add_(0, places[i].long(), p[i])
        told[i, 1:].mul_(2)
    return told


told = projected(p, places).tolist()
"""


def test_rows_that_a_loop_counts_are_set() -> None:
    theirs, ours = rewritten.both(ROWS)
    np.testing.assert_allclose(ours["told"], theirs["told"], rtol=1e-6)


@pytest.mark.parametrize(
    "changed",
    [
        ROWS.replace("        told[i, 1:]", "        i = i > 0\n        told[i, 1:]"),  # a bool asks for a copy
        ROWS.replace("for i in range(told.size(0))", "for i in (True, False)"),
    ],
)
def test_others_are_refused(changed: str) -> None:
    assert "is changed in place" in rewritten.conversion(changed).report.as_text()


def test_the_data_of_what_was_just_made_is_nobody_elses() -> None:
    text = "import torch\n\na = torch.zeros(300, 2)\n"
    drawn = text + "b = torch.ones_like(a).data.normal_(2, 0.2).clamp(1.9, 2.3)\n"
    made = np.asarray(rewritten.executed(rewritten.clean(drawn).text)["b"])
    assert made.shape == (300, 2) and (made.min(), made.max()) == (np.float32(1.9), np.float32(2.3))
    doubled = text + "b = (a + 1).data.mul_(2) + a\n"
    assert np.asarray(rewritten.executed(rewritten.clean(doubled).text)["b"]).tolist() == [[2.0, 2.0]] * 300


KEPT = """import torch


class Grid:
    def __init__(self, n):
        self.z = torch.zeros(n * 2, 3)
        for i in range(len(self.z)):
            self.z[i] = torch.ones(1, 3) * i
            self.z[i, 0] += self.z.shape[0]
        if n > 1:
            self.z = self.z * 2
        self.seen = self.z


told = Grid(2).z.tolist()
"""


def test_tensors_that_an_object_has_just_made_are_set() -> None:
    theirs, ours = rewritten.both(KEPT)
    np.testing.assert_allclose(ours["told"], theirs["told"], rtol=1e-6)


@pytest.mark.parametrize(
    "changed",
    [
        KEPT.replace("        for i", "        self.y = self.z\n        for i"),  # another name has it
        KEPT.replace("+= self.z.shape[0]\n", "+= 1\n            self.ys = [self.z]\n"),  # by the next turn
        KEPT.replace("        self.z = torch.zeros(", "        if n > 1:\n            self.z = torch.zeros("),
        KEPT.replace("        for i", "        self.keep()\n        for i")
        + "\ndef keep(self):\n    self.y = self.z\n\n\nGrid.keep = keep\n",
        KEPT.replace("torch.zeros(n * 2, 3)", "n").replace("Grid(2)", "Grid(torch.zeros(4, 3))").replace("n > 1", "1"),
    ],
)
def test_those_that_something_else_may_have_seen_are_refused(changed: str) -> None:
    assert "self.z is changed in place" in rewritten.conversion(changed).report.as_text()


def test_values_copied_into_the_data_of_a_tensor() -> None:
    text = "import torch\n\na = torch.zeros(2, 3)\na.data.copy_(torch.arange(3.0))\ntold = (a * 2).tolist()\n"
    theirs, ours = rewritten.both(text)
    assert ours["told"] == theirs["told"]

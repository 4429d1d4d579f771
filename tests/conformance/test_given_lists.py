"""Lists that a constructor is given, which are tuples in Flax, put together with others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, FOUR_STEPS, trained

SUMS = (
    """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4, hidden=[5, 6], sizes=None):
        super().__init__()
        if sizes is None:
            sizes = [3]
        ends = hidden[1:] + [width] + hidden
        listed = []
        for h in hidden:
            listed.append(h)
        listed = listed + hidden
        self.count = len(ends) + len(hidden + listed) + len([1] + sizes) + len((1,) + tuple(hidden))
        self.hidden = hidden
        self.count += 10 if isinstance(hidden, list) else 0
        self.count += 100 if isinstance(width, (list, dict)) else 0
        self.count += 1000 if type(hidden) == list else 0
        assert type(hidden) is list, "sizes"
        dims = [width] + hidden + [2]
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:])])

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x * self.count + len(self.hidden + [1])


x = torch.arange(12.0).reshape(3, 4) / 10
"""
    + FOUR_STEPS
)


def test_sums_are_lists(float64: None) -> None:
    theirs, ours = trained(SUMS)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_a_test_that_lists_and_tuples_answer_otherwise_is_refused() -> None:
    text = SUMS.replace("isinstance(hidden, list)", "isinstance(hidden, tuple)")
    assert [one.code for one in rewritten.fresh(text).report.diagnostics] == ["MIG304"]


CHANGED = {  # what a constructor does with a list that it is given, and whether that changes it
    "hidden.append(2)": True,
    "hidden.insert(0, 4)\n        hidden.reverse()\n        hidden.insert(0, 4)": True,
    "own = hidden.copy()\n        own.append(2)\n        width = own[0] - 1": False,
}


@pytest.mark.parametrize("lines", CHANGED)
def test_a_list_that_a_constructor_changes_is_a_copy(lines: str, float64: None) -> None:
    text = SUMS.replace("        if sizes is None:\n", f"        {lines}\n        if sizes is None:\n")
    theirs, ours = trained(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert ("MIG507" in {one.code for one in rewritten.clean(text).report.diagnostics}) == CHANGED[lines]
    text = SUMS.replace("type(hidden) == list", "type(hidden) == tuple")
    assert [one.code for one in rewritten.fresh(text).report.diagnostics] == ["MIG304"]


INSIDE = """import torch
import torch.nn as nn


class Inner(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        assert type(sizes) == KIND
        self.layer = nn.Linear(sizes[0], sizes[1])

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        assert isinstance(sizes, KIND)
        self.inner = Inner(sizes)

    def forward(self, x):
        return self.inner(x)


model = Net(SIZES)
total = model(torch.ones(2, 3)).sum()
"""


@pytest.mark.parametrize("sizes", ["[3, 4]", "list(range(3, 5))"])
def test_lists_that_modules_hand_on_are_asked_for_as_what_they_were(sizes: str) -> None:
    text = INSIDE.replace("SIZES", sizes)
    rewritten.executed(rewritten.clean(text.replace("KIND", "list")).text)
    refused = rewritten.fresh(text.replace("KIND", "tuple")).report.diagnostics
    assert [one.code for one in refused] == ["MIG304", "MIG304"]


def test_a_tuple_is_no_list() -> None:
    text = INSIDE.replace("SIZES", "(3, 4)")
    rewritten.executed(rewritten.clean(text.replace("KIND", "tuple")).text)
    refused = rewritten.fresh(text.replace("KIND", "list")).report.diagnostics
    assert [one.code for one in refused] == ["MIG304", "MIG304"]

"""Names that torch and numpy have given up: scripts of their time are written with the names of now."""

from __future__ import annotations

import sys
import types
from collections import abc

import numpy as np
import pytest

from tests.conformance import rewritten

SIX = """import torch
from torch._six import string_classes, int_classes, inf, container_abcs as abcs


def total(xs, p=2.0):
    if isinstance(p, string_classes):
        p = float(p)
    if isinstance(xs, abcs.Mapping):
        xs = list(xs.values())
    if p == inf:
        return float(max(torch.abs(x).max() for x in xs))
    return float(sum(torch.norm(x, p) for x in xs))


found = [total([torch.ones(3)]), total({"a": torch.ones(2)}, "2"), total([-torch.ones(3)], inf)]
found.append(isinstance(3, int_classes))
"""
NUMPY = """import numpy as np
import torch

x = torch.from_numpy(np.arange(4, dtype=np.float).astype(np.int)) + 1
found = [x.tolist(), np.isnan(np.NaN), isinstance(2, np.int), float(np.Inf), np.product([2, 3]), np.float64(2.5)]
mine = type("Mine", (), {"float": 7})
found.append(mine.float)
"""


def test_what_torch_had_for_both_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    six = types.ModuleType("torch._six")
    vars(six).update(string_classes=str, int_classes=int, inf=float("inf"), container_abcs=abc)
    monkeypatch.setitem(sys.modules, "torch._six", six)
    theirs, ours = rewritten.both(SIX)
    assert ours["found"] == pytest.approx(theirs["found"]) and theirs["found"][2:] == [1.0, True]


def test_what_numpy_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"float": float, "int": int, "NaN": np.nan, "Inf": np.inf, "product": np.prod}.items():
        monkeypatch.setattr(np, name, value, raising=False)
    theirs = rewritten.executed(NUMPY)
    monkeypatch.undo()
    assert rewritten.executed(rewritten.clean(NUMPY).text)["found"] == theirs["found"]
    assert theirs["found"] == [[1, 2, 3, 4], True, True, float("inf"), 6, 2.5, 7]


def test_a_snippet_that_calls_itself_under_another_name() -> None:
    """`median` is a name of the script's, so that torch's has another one, inside as well."""
    text = """import torch


class Window:
    def __init__(self):
        self.values = [3.0, 1.0, 2.0, 9.0]

    def median(self):
        return torch.tensor(self.values).median().item()


found = Window().median()
"""
    theirs, ours = rewritten.both(text)
    assert ours["found"] == theirs["found"] == 2.0


COPY = """import math
import torch
import torch.nn as nn


def _no_grad_trunc_normal_(tensor, mean, std, a, b):
    def norm_cdf(x):
        return (1. + math.erf(x / math.sqrt(2.))) / 2.

    with torch.no_grad():
        l = norm_cdf((a - mean) / std)
        u = norm_cdf((b - mean) / std)
        tensor.uniform_(2 * l - 1, 2 * u - 1)
        tensor.erfinv_()
        tensor.mul_(std * math.sqrt(2.))
        tensor.add_(mean)
        tensor.clamp_(min=a, max=b)
        return tensor


def trunc_normal_(tensor, mean=0., std=1., a=-2., b=2.):
    return _no_grad_trunc_normal_(tensor, mean, std, a, b)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(300, 200)
        trunc_normal_(self.fc.weight, std=3.0)

    def forward(self, x):
        return self.fc(x)


net = Net()
weights = net.fc.weight.detach().flatten()
found = [float(weights.std()), float(weights.abs().max())]
"""


def test_a_copy_of_a_function_that_torch_has() -> None:
    theirs, ours = rewritten.both(COPY)
    assert "trunc_normal_" not in ours and ours["found"] == pytest.approx(theirs["found"], rel=0.02)
    assert theirs["found"] == pytest.approx([1.125, 2.0], rel=0.02)  # nearly uniform in [-2, 2]; 60,000 weights


def test_a_function_of_that_name_that_does_something_else() -> None:
    made = rewritten.conversion(COPY.replace("tensor.add_(mean)", "tensor.add_(mean + 1)"))
    assert "nn.initializers" not in made.text

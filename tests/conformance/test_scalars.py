"""Tensors of one element where Python wants a number."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import math

import torch

names = ["a", "b", "c"]
t = torch.tensor([[0.25, 0.5, 0.125], [0.75, 0.25, 0.125]])
p = t.max(1, keepdim=True)[1]
q = t.argmax(1)
"""


@pytest.mark.parametrize(
    "written",
    [
        "names[p[0]], [names[i] for i in p], names[:p[0]], 'xyz'[p[0]], names[-q[1] - 1]",
        "int(p[0]), int(t[0:1, 1] * 7), float(t[0:1, 1]), float(p[0]), round(t[:1, 0].item(), 1)",
        "list(range(p[0])), 'ab' * p[0], math.sqrt(t[1:, 1]), math.floor(q[0])",
        "'%d of %s, %5.2f%%' % (p[0], 'x', t[0:1, 1]), '%d' % p[0], '%g' % t.sum()",
        "len(names[q[0]:]), max(int(i) for i in p)",
    ],
)
def test_numbers(written: str) -> None:
    source = f"{HEAD}out = [{written}]\n"
    text = str(rewritten.clean(source).text)
    assert rewritten.executed(text)["out"] == rewritten.executed(source)["out"]


@pytest.mark.parametrize(
    "written",
    [
        "torch.tensor([[one]])",
        "torch.tensor([one + one])",
        "torch.tensor([one, 1.0])",
        "torch.tensor(pairs)",
        "torch.tensor([x[:1] for x in t])",
        "torch.tensor([one[0], t.sum()])",
        "torch.FloatTensor([one, one])",
        "torch.as_tensor((one, one))",
    ],
)
def test_tensors_in_lists_are_the_numbers_that_they_have(written: str) -> None:
    source = f"{HEAD}one = t[0, 1:2]\npairs = [(one, 1.0), (one, 2.0)]\nout = {written}.tolist()\n"
    assert rewritten.executed(rewritten.clean(source).text)["out"] == rewritten.executed(source)["out"]


def test_what_has_no_axes_stays_as_it_is() -> None:
    source = f"{HEAD}loss = t.sum()\nout = float(loss), '%d' % loss, names[t.sum(dtype=torch.int32) - 2]\n"
    assert "out = float(loss), '%d' % loss," in str(rewritten.clean(source).text)


GIVING = """import numpy as np
import torch
import torch.nn as nn


class Net(nn.Module):
    def forward(self, x):
        weights = torch.softmax(x, 1)
        seen = []
        seen.append(weights.squeeze().detach().numpy())
        return x * weights, {}, seen


net = Net()
scaled, given, seen = net(torch.linspace(-1, 1, 12).reshape(3, 4))
"""


def test_arrays_that_a_forward_pass_gives_away() -> None:
    source = GIVING.format("weights.data.cpu().numpy()")
    ours, theirs = (rewritten.executed(text) for text in (str(rewritten.clean(source).text), source))
    for name in ("given", "scaled"):
        np.testing.assert_allclose(np.asarray(ours[name]), np.asarray(theirs[name]), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ours["seen"][0]), theirs["seen"][0], rtol=1e-6)


def test_numpy_has_no_values_of_what_jit_traces() -> None:
    found = rewritten.conversion(GIVING.format("np.percentile(weights.numpy(), 3)")).report.diagnostics
    assert [(one.code, one.message) for one in found] == [
        ("MIG307", "np.percentile of a tensor whose values jit does not know")
    ]

"""`Variable = lambda *args, **kwargs: ...`, as the notebooks of 2018 have it for code with and without a GPU."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """
import torch
import torch.autograd as autograd
import torch.nn as nn

USE_CUDA = torch.cuda.is_available()
Variable = lambda *a, **k: autograd.Variable(*a, **k).cuda() if USE_CUDA else autograd.Variable(*a, **k)

net = nn.Linear(2, 3)
nn.init.constant_(net.weight, 0.1)
nn.init.constant_(net.bias, 0.2)


def chosen(state, action):
    values = net(Variable(torch.FloatTensor(state)))
    action = Variable(torch.LongTensor(action))
    return values.gather(1, action.unsqueeze(1)).squeeze(1)


told = chosen([[1.0, 2.0], [3.0, 4.0]], [0, 2]).tolist()
"""


def test_they_are_what_they_hand_on_to() -> None:
    assert "Variable" not in rewritten.clean(SCRIPT).text
    theirs, ours = rewritten.both(SCRIPT)
    np.testing.assert_allclose(ours["told"], theirs["told"], rtol=1e-6)


def test_other_lambdas_stay() -> None:
    text = "import torch\n\nfirst = lambda *args, **kwargs: max(*args, 3)\nx = torch.ones(first(1, 2)).tolist()\n"
    theirs, ours = rewritten.both(text)
    assert "first = lambda" in rewritten.clean(text).text and theirs["x"] == ours["x"]


@pytest.mark.parametrize(
    "body", ["torch.ones(*a, dtype=torch.int64, **k)", "torch.ones(*a, **k).to(torch.int64)", "torch.ones(*a[:1], **k)"]
)
def test_lambdas_that_do_more_are_none(body: str) -> None:
    text = f"import torch\n\nmade = lambda *a, **k: {body}\nx = made(2, 3)\n"
    assert "made = lambda" in rewritten.conversion(text).text

"""`Variable = lambda *args, **kwargs: ...`, as the notebooks of 2018 have it for code with and without a GPU."""

import numpy as np

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

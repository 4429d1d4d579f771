"""What names stand for: those that a star takes from a module, and those of the script's own that the output needs for
a module."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, -0.1)

    def forward(self, x):
        return torch.tanh(self.fc(x))
"""
LOOP = """
for step in range(4):
    x = make_batch()
    loss = F.mse_loss(net(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
MAKING = """
losses = []
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
"""
DRAWING = """
def make_batch():
    return torch.tensor([[random(), random()] for _ in range(8)])
"""
PLAIN = "\ndef make_batch():\n    return torch.full((8, 2), 0.3) * torch.arange(8)[:, None]\n"
STARS = """
from random import *

import torch
from torch.nn import *
from torch.nn.functional import *
from torch.optim import *

seed(3)


class Net(Module):
    def __init__(self):
        super().__init__()
        self.fc = Linear(2, 1)
        init.constant_(self.fc.weight, 0.3)
        init.constant_(self.fc.bias, -0.1)

    def forward(self, x):
        return softplus(self.fc(x))


losses = []
net = Net()
optimizer = SGD(net.parameters(), lr=0.5)
"""
OWN = {
    "a function of Python's with the name of its module": HEAD
    + f"from random import random, seed\n{NET}{DRAWING}seed(3)\n{MAKING}{LOOP}",
    "a star of Python's": HEAD + f"from random import *\n{NET}{DRAWING}seed(3)\n{MAKING}{LOOP}",
    "stars of torch's": f"{STARS}{DRAWING}{LOOP}".replace("F.mse_loss", "mse_loss"),
    "variables": f"optax, jnp = 3, [0.5]\n{HEAD}{NET}{PLAIN}{MAKING.replace('0.5', 'jnp[0] / optax')}{LOOP}",
    "a variable of a function": f"{HEAD}{NET}{PLAIN}{MAKING}"
    + f"\ndef train(jax):{LOOP.replace(chr(10), chr(10) + '    ').replace('range(4)', 'range(jax)')}\ntrain(4)\n",
    "a function": f"{HEAD}{NET}{PLAIN}\ndef optax(x):\n    return x / 2\n{MAKING.replace('0.5', 'optax(1.0)')}{LOOP}",
}


@pytest.mark.parametrize("form", OWN)
def test_losses_are_torchs(form: str, float64: None) -> None:
    theirs, ours = rewritten.both(OWN[form])
    assert len(set(theirs["losses"])) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)  # float32


def test_of_two_stars_the_lower_one_counts() -> None:
    """`sigmoid` is the script's own below its definition, and `sum` and `sqrt` are torch's, which their star hides."""
    source = """
from math import *
from torch import *

def sigmoid(x):
    return 2 * x

pair = tensor([1.0, 2.0])
found = [sum(pair).item(), sqrt(pair)[0].item(), sigmoid(3), floor(pair / 2)[0].item(), factorial(3)]
"""
    theirs, ours = rewritten.both(source)
    assert ours["found"] == theirs["found"] == [3.0, 1.0, 6, 0.0, 6]


def test_a_star_that_gives_nothing_goes() -> None:
    unused = "from math import *\nfrom torch.autograd import *\nfrom torch.optim.lr_scheduler import *\n"
    text = rewritten.clean(f"{unused}{OWN['variables']}").text
    assert "from math import *" in text and "torch" not in packages_of(text)


def packages_of(text: str) -> set[str]:
    """The packages that a text imports."""
    lines = [line.split() for line in text.splitlines() if line.startswith(("import ", "from "))]
    return {line[1].partition(".")[0] for line in lines}


def test_a_name_that_callers_say_too_is_reported() -> None:
    source = f"{HEAD}{NET}{PLAIN}{MAKING}\ndef train(jax):{LOOP.replace(chr(10), chr(10) + '    ')}\ntrain(jax=4)\n"
    found = rewritten.conversion(source).report.diagnostics
    assert [(one.code, "needs `jax`" in one.message) for one in found] == [("MIG305", True)]

"""Initial weights in parts, of rows of layers, of base classes, and as further arguments of a function say: each script
fills all that it makes with constants, so that both frameworks have the same outputs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from migrate.known.kinds import ModeFlag, Number, join
from tests.conformance import rewritten

HEAD = """import functools
import math
from functools import partial
import torch
import torch.nn as nn
from torch.nn import init


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(torch.relu(self.fc(x)))


"""
CONSTANT = """def constant(m, value=0.5, bias=None, kind="both"):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, value)
        if kind == "both":
            m.bias.data.fill_(value if bias is None else bias)
        elif kind in ("weights", "weight"):
            nn.init.zeros_(m.bias)
        else:
            raise ValueError(kind)


"""
END = "shown = net(torch.arange(8.0).reshape(2, 4)).detach()\n"
START = "nn.init.constant_(self.fc.weight, 0.5)\n        nn.init.constant_(self.fc.bias, 0.25)\n"
CLASS = """class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.scale = nn.Parameter(torch.ones(3))
        START        PART

    def forward(self, x):
        return self.fc(x) * self.scale


net = Net()
"""
PARTS = {
    "a row": "self.fc.weight.data[0] = 0",
    "a row, filled": "self.fc.weight.data[1].fill_(2.0)",
    "a column": "self.fc.weight.data[:, 2].zero_()",
    "a block": "self.fc.weight.data[1:, :2] = 3.0",
    "one element": "self.fc.weight.data[0, 1] = -1.5",
    "a row of its own": "self.fc.weight.data[2] = torch.arange(4.0)",
    "a column of its own": "self.fc.weight.data[:, 1] = torch.arange(3.0)",
    "copied": "self.fc.weight.data[:2].copy_(torch.arange(4.0))",
    "of a bias": "self.fc.bias.data[width // 2:] = 1.0",
    "by nn.init": "nn.init.ones_(self.fc.bias[1:])",
    "of a parameter": "self.scale.data[0] = 4.0",
    "by an operator": "with torch.no_grad():\n            self.fc.bias[1:] -= 2\n            self.fc.weight[:, 0] *= 3",
    "the whole, by an operator": (
        "with torch.no_grad():\n            self.fc.weight *= 0.1\n            self.fc.bias /= 2"
    ),
    "one after another": (
        "self.fc.bias.data[0] = 1\n        self.fc.bias.data[:2] = 2\n        self.fc.bias.data[1] = 3"
    ),
    "by its own length": "n = self.fc.bias.size(0)\n        self.fc.bias.data[n // 3:n].fill_(2)",
    "the whole, a matrix": "self.fc.weight.data.copy_(torch.arange(12.0).reshape(3, 4))",
    "the whole, one row": "self.fc.weight.data = torch.arange(4.0).repeat(3, 1)",
}


def script(form: str) -> str:
    return HEAD + (CONSTANT if re.search(r"\bconstant\b(?!_)", form) else "") + form + END


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_parts_by_a_constructor(part: str) -> None:
    source = HEAD + CLASS.replace("START", START).replace("PART", part) + END
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-6)  # float32


ROWS = "[float(v) for v in net.rnn(torch.linspace(-1, 1, 24).reshape(4, 2, 3))[0].detach().flatten()]"
RECURRENT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4MORE)
        FILLED

    def forward(self, x):
        return self.rnn(x)[0]


net = Net()
shown = net(torch.linspace(-1, 1, 24).reshape(4, 2, 3)).detach()
"""
WHOLE = "for p in self.rnn.parameters():\n            nn.init.constant_(p, 0.2)\n        "
FORGETTING = {
    "after it was scaled": """for name, param in self.rnn.named_parameters():
            nn.init.constant_(param, 0.4)
        with torch.no_grad():
            self.rnn.bias_ih_l0 *= 0.5
        n = self.rnn.bias_ih_l0.size(0)
        self.rnn.bias_ih_l0.data[n // 4:n // 2] = 1.0""",
    "by name": """for name, param in self.rnn.named_parameters():
            if "bias" in name:
                nn.init.zeros_(param)
                n = param.size(0)
                param.data[n // 4:n // 2].fill_(1)
            else:
                nn.init.constant_(param, 0.2)""",
    "two names in one line": """for name, param in self.rnn.named_parameters():
            nn.init.constant_(param, 0.2)
            if name.startswith("bias"):
                n = len(param)
                start, end = n // 4, n // 2
                with torch.no_grad():
                    param[start:end] = 1.0""",
}


@pytest.mark.parametrize("more", ["", ", 2", ", bidirectional=True"])
@pytest.mark.parametrize("filled", FORGETTING.values(), ids=FORGETTING)
def test_forget_gates(filled: str, more: str) -> None:
    if more and "_l0" in filled:
        refused = rewritten.conversion(RECURRENT.replace("FILLED", filled).replace("MORE", more))
        assert "MIG204" in {found.code for found in refused.report.diagnostics}  # one of several layers alone
        return
    theirs, ours = rewritten.both(RECURRENT.replace("FILLED", filled).replace("MORE", more))
    np.testing.assert_allclose(
        ours["shown"], theirs["shown"], rtol=1e-5, atol=1e-7
    )  # float32: sums of several products


ALL_WEIGHTS = """for names in self.rnn._all_weights:
            for name in filter(lambda n: "bias" in n, names):
                bias = getattr(self.rnn, name)
                n = bias.size(0)
                start, end = n // 4, n // 2
                bias.data[start:end].fill_(1.)"""


def test_forget_gates_among_what_torch_draws() -> None:
    """The other biases are drawn as torch draws them: evenly, between -1 / sqrt(4) and 1 / sqrt(4)."""
    made = rewritten.executed(rewritten.clean(RECURRENT.replace("FILLED", ALL_WEIGHTS).replace("MORE", "")).text)
    for name in ("bias_ih_l0", "bias_hh_l0"):
        bias = np.asarray(made["params"]["rnn"][name])
        others = np.concatenate([bias[:4], bias[8:]])
        np.testing.assert_array_equal(bias[4:8], 1)
        assert 0.2 < np.abs(others).max() < 0.5 and len(set(others)) == len(others)


FORMS = {
    "partial": "net = Base()\nnet.apply(partial(constant, value=0.3))\n",
    "a lambda": "net = Base()\nnet.apply(lambda m: constant(m, 0.3, kind='weights'))\n",
    "two settings": """class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)


first, second = Base(), Other()
first.apply(partial(constant, value=0.3))
second.apply(partial(constant, value=0.6, bias=0.1))
net = lambda x: second(first(x))
""",
    "a function of the model": """def fill(net, scale=0.1, bias=None):
    for m in net.modules():
        if isinstance(m, nn.Linear):
            nn.init.constant_(m.weight, scale * 2)
            if bias is not None:
                nn.init.constant_(m.bias, bias)


net = Base()
fill(net, bias=0.7)
""",
    "a function inside": """def fill(net, kind="zeros", gain=2.0):
    def inner(m):
        name = m.__class__.__name__
        if hasattr(m, "weight") and name.find("Linear") != -1:
            if kind == "zeros":
                nn.init.zeros_(m.weight)
            elif kind in ("ones", "one"):
                nn.init.constant_(m.weight, gain)
            else:
                raise NotImplementedError(kind)
            if hasattr(m, "bias") and m.bias is not None:
                nn.init.constant_(m.bias.data, 0.5)

    print("filled with %s" % kind)
    net.apply(inner)


net = Base()
fill(net, "one")
""",
    "a function that makes one": """def make(value):
    def inner(m):
        if type(m) == nn.Linear:
            m.weight.data.fill_(value)
            m.bias.data.fill_(value / 2)

    return inner


net = Base()
net.apply(make(0.25))
""",
    "by a heir": """class Net(Base):
    def __init__(self):
        super().__init__()
        self.apply(partial(constant, value=0.2))


net = Net()
""",
    "by the modules of a heir": """class Net(Base):
    def __init__(self):
        super().__init__()
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.2)
                nn.init.constant_(m.bias, 0.1)


net = Net()
""",
    "by the names of a heir": """class Net(Base):
    def __init__(self):
        super().__init__()
        self.more = nn.Linear(2, 2)
        for name, p in self.named_parameters():
            if "weight" in name:
                nn.init.constant_(p, 0.2)
            else:
                nn.init.zeros_(p)

    def forward(self, x):
        return self.more(super().forward(x))


net = Net()
""",
    "by a heir, one by one": """class Net(Base):
    def __init__(self):
        super().__init__()
        for weight in (self.fc.weight, self.out.weight):
            nn.init.constant_(weight, 0.2)
        nn.init.ones_(self.fc.bias)
        nn.init.zeros_(self.out.bias)


net = Net()
""",
    "of a model of a class with a base": """class Net(Base):
    pass


net = Net()
net.apply(constant)
""",
    "layers of a row": """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        self.tower = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                nn.init.constant_(layer.weight, 0.3)
                layer.bias.data.fill_(0.1)
        for m in self.tower.children():
            if hasattr(m, "weight"):
                nn.init.eye_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.net(x)
        for t in self.tower:
            x = t(x)
        return x


net = Net()
""",
    "layers of a model": """net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
for layer in net:
    if type(layer) == nn.Linear:
        nn.init.constant_(layer.weight, 0.5)
        layer.bias.data.fill_(0.01)
net[-1].bias.data.fill_(0.5)
""",
    "in turn, where the script stands": """net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
with torch.no_grad():
    net[0].weight[0] = 5.0
nn.init.constant_(net[0].weight, 2.0)
net[2].bias.data.fill_(1.0)
net[2].bias.data[0] = 4.0
net[-1].weight.data.fill_(0.25)
net[0].bias.data[1:].zero_()
net[0].bias.data[:1].copy_(torch.tensor([3.0]))
""",
    "by numbers that come later": """net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
prior = 0.01
start = -math.log((1 - prior) / prior)
nn.init.constant_(net[1].bias, start)
for p in (net[0].weight, net[1].weight):
    nn.init.ones_(p)
nn.init.zeros_(net[0].bias)
""",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms(form: str) -> None:
    theirs, ours = rewritten.both(script(form))
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-6)  # float32


SCALED = "net = nn.Linear(4000, 2)\nwith torch.no_grad():\n    net.weight.mul_(0.1)\n    net.bias.zero_()\n"


def test_scaled_once_it_is_made() -> None:
    """torch draws evenly between -1 / sqrt(4000) and 1 / sqrt(4000): of 8,000, the largest is close to that."""
    source = HEAD + SCALED + "shown = net(torch.ones(1, 4000))\n"
    kernel = np.abs(rewritten.executed(rewritten.clean(source).text)["params"]["kernel"])
    assert 0.99 < kernel.max() * 10 * 4000**0.5 <= 1.001


REFUSED = {
    "a part of a weight of a module inside": "class Net(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.inner = Base()\n        self.inner.fc.weight.data[0] = 0\n\n"
    "    def forward(self, x):\n        return self.inner(x)\n\n\nnet = Net()\n",
    "a model of the base": "class Net(Base):\n    def __init__(self):\n        super().__init__()\n"
    "        self.apply(constant)\n\n\nnet, other = Net(), Base()\nprint(other(torch.ones(2, 4)))\n",
    "another heir": "class Net(Base):\n    def __init__(self):\n        super().__init__()\n"
    "        self.apply(constant)\n\n\nclass Plain(Base):\n    pass\n\n\nnet, other = Net(), Plain()\n"
    "print(other(torch.ones(2, 4)))\n",
    "scaled after it was set": "net = nn.Linear(4, 2)\nnet.weight.data[0] = 5.0\nnet.weight.data.mul_(0.1)\n",
    "a test of a variable": "flag = None\n\n\ndef fill(m):\n    if isinstance(m, nn.Linear) and flag is None:\n"
    "        nn.init.ones_(m.weight)\n\n\nnet = Base()\nnet.apply(fill)\n",
    "a part that is drawn": CLASS.replace("START        PART", "nn.init.normal_(self.fc.weight[0])"),
}


@pytest.mark.parametrize("form", REFUSED.values(), ids=REFUSED)
def test_refused(form: str) -> None:
    assert "MIG204" in {found.code for found in rewritten.conversion(script(form)).report.diagnostics}


def test_modes_that_differ_are_some_number() -> None:
    assert join(ModeFlag("train"), ModeFlag("eval")) == Number()
    assert join(ModeFlag("train", True), ModeFlag("train", True)) == ModeFlag("train", True)

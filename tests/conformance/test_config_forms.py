"""What configurations tell: layers and functions by name, arguments in dicts, modes that are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F



"""
NET = """class Net(nn.Module):
    def __init__(self, act="relu"):
        super().__init__()
        self.fc1 = nn.Linear(4, 3)
        self.act = ACT
        self.fc2 = nn.Linear(3, 2)
        for layer in (self.fc1, self.fc2):
            nn.init.constant_(layer.weight, 0.3)
            nn.init.constant_(layer.bias, -0.4)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


net = Net(NAME)
shown = net(torch.linspace(-2, 2, 12).reshape(3, 4)).detach()
"""
ACTS = {
    "a function": ("getattr(F, act)", '"tanh"'),
    "a function by its default": ("getattr(F, act)", ""),
    "a function of torch": ("getattr(torch, act)", '"sigmoid"'),
    "a layer": ("getattr(nn, act)()", '"SiLU"'),
    "a layer, written out": ('getattr(nn, "GELU")()', ""),
    "a function, written out": ('getattr(F, "silu")', ""),
}


@pytest.mark.parametrize(("act", "name"), ACTS.values(), ids=ACTS)
def test_by_name(act: str, name: str) -> None:
    theirs, ours = rewritten.both(HEAD + NET.replace("ACT", act).replace("NAME", name))
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-5)  # float32, of exponentials


def test_a_name_that_is_not_known_needs_a_person() -> None:
    source = HEAD + NET.replace("ACT", "getattr(F, act)").replace("NAME", "input()")
    assert "MIG304" in {found.code for found in rewritten.conversion(source).report.diagnostics}


MADE = """class Net(nn.Module):
    def __init__(self, sizes, activation=nn.Tanh, last=nn.Identity):
        super().__init__()
        layers = []
        for j in range(len(sizes) - 1):
            act = activation if j < len(sizes) - 2 else last
            layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
        self.net = nn.Sequential(*layers)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.3)
                nn.init.constant_(m.bias, -0.4)

    def forward(self, x):
        return self.net(x)


net = Net([4, 3, 2], activation=nn.ReLU)
shown = net(torch.linspace(-2, 2, 12).reshape(3, 4)).detach()
"""


def test_identity_by_default() -> None:
    """It takes any arguments, and none."""
    theirs, ours = rewritten.both(HEAD + MADE)
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-6)  # float32


STEPS = """DICT
net = nn.Linear(3, 2)
nn.init.ones_(net.weight)
nn.init.zeros_(net.bias)
MAKE
losses = []
for step in range(3):
    optimizer.zero_grad()
    loss = (net(torch.ones(2, 3)) - 1).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
OPTIONS = {
    "of a dict": ('options = {"lr": 0.1, "momentum": 0.9}', "torch.optim.SGD(net.parameters(), **options)"),
    "of an entry": (
        'config = {"optimizer": {"lr": 0.1, "betas": (0.8, 0.9), "amsgrad": True}}\nprint(config)',
        'torch.optim.Adam(net.parameters(), **config["optimizer"])',
    ),
    "and others": (
        'options = {"momentum": 0.9, "nesterov": True}',
        "torch.optim.SGD(net.parameters(), lr=0.05, **options)",
    ),
}
FUNCTION = """def make(net, config):
    return torch.optim.SGD(net.parameters(), **config["optimizer"])


config = {"optimizer": {"lr": 0.1, "momentum": 0.5}}
"""


@pytest.mark.parametrize(("written", "made"), OPTIONS.values(), ids=OPTIONS)
def test_options(written: str, made: str) -> None:
    theirs, ours = rewritten.both(HEAD + STEPS.replace("DICT", written).replace("MAKE", f"optimizer = {made}"))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of three steps


def test_options_of_a_dict_that_a_function_is_given() -> None:
    source = HEAD + STEPS.replace("DICT", FUNCTION).replace("MAKE", "optimizer = make(net, config)")
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of three steps


CHANGED = ['options["nesterov"] = True', "options.update(nesterov=True)", "change(options)", "del options['momentum']"]


@pytest.mark.parametrize("change", CHANGED)
def test_options_that_may_have_changed_need_a_person(change: str) -> None:
    written = f'from settings import change\n\noptions = {{"lr": 0.1, "momentum": 0.9}}\n{change}'
    made = "optimizer = torch.optim.SGD(net.parameters(), **options)"
    source = HEAD + STEPS.replace("DICT", written).replace("MAKE", made)
    assert "MIG302" in {found.code for found in rewritten.conversion(source).report.diagnostics}


MODES = """net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
for layer in net:
    if isinstance(layer, nn.Linear):
        nn.init.constant_(layer.weight, 0.5)
        nn.init.zeros_(layer.bias)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 12).reshape(4, 3)


@torch.no_grad()
def evaluate(net, x):
    was_training = net.training
    net.eval()
    value = net(x).sum().item()
    BACK
    return value


shown, modes = [], []
for step in range(3):
    loss = (net(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown += [loss.item(), evaluate(net, x)]
    modes.append(net.training)
net.eval()
shown.append(evaluate(net, x))
modes.append(net.training)
"""
BACK = {
    "by the flag": "net.train(was_training)",
    "by its name": "net.train(mode=was_training)",
    "where it was": "if was_training:\n        net.train()",
}


@pytest.mark.parametrize("back", BACK.values(), ids=BACK)
def test_modes_put_back(back: str) -> None:
    theirs, ours = rewritten.both(
        HEAD + MODES.replace("BACK", back).replace("net.eval()\nshown.append", "shown.append")
    )
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-4, atol=1e-6)  # float32, through batch norms
    assert ours["modes"] == theirs["modes"] == [True, True, True, True]


def test_modes_that_are_asked_for() -> None:
    source = HEAD + "net = nn.Dropout(0.5)\nmodes = [net.training]\nnet.eval()\nmodes.append(net.training)\n"
    source += "net.train()\nmodes.append(net.training)\nprint(net(torch.ones(3)))\n"
    theirs, ours = rewritten.both(source)
    assert ours["modes"] == theirs["modes"] == [True, False, True]

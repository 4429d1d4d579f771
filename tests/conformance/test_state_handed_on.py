"""Modules that keep a state from one call to the next: it is an argument and a result of their forward passes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
import torch.nn as nn
import torch.nn.functional as F

data = torch.sin(torch.arange(30) / 4.0)
xs = data.unfold(0, 5, 5)[:4, :, None]


class Net(nn.Module):
    def __init__(self, width=3):
        super(Net, self).__init__()
        self.width = width
        self.gru = nn.GRU(1, width, batch_first=True)
        self.out = nn.Linear(width, 1)
        for p in self.parameters():
            nn.init.constant_(p, 0.3)
        START

METHODS

    def forward(self, x):
        x, h = self.gru(x, self.hidden)
        self.hidden = KEPT
        return self.out(x[:, -1])


"""
INIT = """    def init_hidden(self):
        return torch.zeros(1, 4, self.width)"""
RESET = """    def reset(self, n=4):
        self.hidden = torch.zeros(1, n, self.width)"""
TRAIN = """net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for epoch in range(3):
    AGAIN
    for part in (xs, xs * 0.5):
        loss = F.mse_loss(net(part), part[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
FUNCTION = """def train(model, optimizer, losses):
    for epoch in range(3):
        AGAIN
        for part in (xs,):
            pred = model(part)
            loss = F.mse_loss(pred, part[:, -1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())


model, losses = Net(), []
train(model, torch.optim.SGD(model.parameters(), lr=0.1), losses)
"""
OWN = "net.hidden = net.init_hidden()"
FORMS = {
    "set from outside": ("self.hidden = self.init_hidden()", INIT, "h.detach()", TRAIN.replace("AGAIN", OWN)),
    "carried on": ("self.hidden = self.init_hidden()", INIT, "h.detach()", TRAIN.replace("AGAIN", "pass")),
    "none at first": ("self.hidden = None", "", "h.detach()", TRAIN.replace("AGAIN", "net.hidden = None")),
    "by a method": ("self.reset()", RESET, "h.detach()", TRAIN.replace("AGAIN", "net.reset()")),
    "by a method, of a length": ("self.hidden = None", RESET, "h.detach()", TRAIN.replace("AGAIN", "net.reset(n=4)")),
    "in a function": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h",
        FUNCTION.replace("AGAIN", "model.hidden = model.init_hidden()"),
    ),
    "read again": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        TRAIN.replace("AGAIN", OWN) + "losses.append(net.hidden.sum().item())\n",
    ),
    "evaluated, by a method of its own": (
        "self.reset()",
        RESET,
        "h.detach()",
        TRAIN.replace("AGAIN", "net.reset()")
        + "\n\ndef predict(x):\n    net.reset(1)\n    with torch.no_grad():\n        return net(x).item()\n\n\n"
        + "net.reset()\nlosses.append(predict(xs[:1]))\n",
    ),
    "set under another name as well": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        TRAIN.replace("AGAIN", OWN) + "net.state = torch.zeros(1, 4, 3)\nlosses.append(net(xs).sum().item())\n",
    ),
}


def script(start: str, methods: str, kept: str, end: str) -> str:
    return NET.replace("START", start).replace("METHODS", methods).replace("KEPT", kept) + end


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_same_losses(form: tuple[str, str, str, str]) -> None:
    source = script(*form)
    made = rewritten.clean(source)
    assert [found.code for found in made.report.diagnostics] == ["MIG519"]
    theirs, ours = rewritten.both(source)
    assert len(theirs["losses"]) == len(ours["losses"]) > 2
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


def test_a_state_reads_as_an_argument() -> None:
    made = rewritten.clean(script(*FORMS["none at first"])).text
    assert "def __call__(self, x, hidden):" in made
    assert "return self.out(x[:, -1]), hidden" in made
    assert "hidden = metrics" in made


EVAL = "\n\ndef evaluate(model):\n    return model(xs).sum().item()\n\n\n"
REFUSED = {
    "called by a second test": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        TRAIN.replace("AGAIN", OWN) + "if losses[0] < 0:\n    print(1)\nelif net(xs).sum() > 0:\n    print(2)\n",
    ),
    "a copy": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        "import copy\n\n" + TRAIN.replace("AGAIN", OWN) + "other = copy.deepcopy(net)\nprint(other(xs))\n",
    ),
    "another name": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        TRAIN.replace("AGAIN", OWN) + "other = net\nprint(other(xs))\n",
    ),
    "a function that goes on with it": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        EVAL + TRAIN.replace("AGAIN", "evaluate(net)"),
    ),
    "two models": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        TRAIN.replace("AGAIN", OWN) + "other = Net()\nprint(other(xs))\n",
    ),
    "a part of another model": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        "whole = nn.Sequential(Net(), nn.Tanh())\nprint(whole(xs))\n",
    ),
    "disturbed by a function": (
        "self.hidden = self.init_hidden()",
        INIT,
        "h.detach()",
        "\n\ndef look(x):\n    net.hidden = net.init_hidden()\n    return net(x)\n\n\n"
        + TRAIN.replace("AGAIN", f"{OWN}\n    print(look(xs))"),
    ),
}


@pytest.mark.parametrize("form", REFUSED.values(), ids=REFUSED)
def test_refused(form: tuple[str, str, str, str]) -> None:
    assert "MIG201" in {found.code for found in rewritten.conversion(script(*form)).report.diagnostics}

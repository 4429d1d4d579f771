"""Models of one of several classes, used where a test tells which: below `if args.model == "lstm"` it is an LSTM again.
Four steps in both frameworks, from the same weights, for each of the classes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7)
        nn.init.constant_(self.embed.weight, 0.5)
        nn.init.constant_(self.head.weight, 0.4)
        nn.init.constant_(self.head.bias, 0.1)

    def forward(self, x):
        return self.head(self.embed(x))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.rnn = nn.RNN(5, 6, nonlinearity=kind)
        self.head = nn.Linear(6, 7)
        nn.init.constant_(self.embed.weight, 0.5)
        nn.init.constant_(self.rnn.weight_ih_l0, 0.3)
        nn.init.constant_(self.rnn.weight_hh_l0, -0.2)
        nn.init.constant_(self.rnn.bias_ih_l0, 0.1)
        nn.init.constant_(self.rnn.bias_hh_l0, 0.2)
        nn.init.constant_(self.head.weight, 0.4)
        nn.init.constant_(self.head.bias, 0.1)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.embed(x), hidden)
        return self.head(output), hidden

    def start(self, batch):
        return torch.zeros(1, batch, 6)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7)
        nn.init.constant_(self.embed.weight, 0.5)
        nn.init.constant_(self.head.weight, 0.4)
        nn.init.constant_(self.head.bias, 0.1)

    def forward(self, x, scale, shift):
        return self.head(self.embed(x) * scale + shift)


args = argparse.Namespace(model="MODEL", optimizer=OPTIMIZER, lr=0.5)
data = torch.arange(24).reshape(4, 6) % 7
data = data * data % 7
"""
MAKING = """if args.model == "plain":
    model = Plain()
elif args.model == "wide":
    model = Wide()
else:
    model = Recurrent(args.model)
"""
TRAINING = """if args.optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)


def evaluate():
    if args.model in ("tanh", "relu"):
        hidden = model.start(6)
    with torch.no_grad():
        if args.model == "plain":
            output = model(data)
        elif args.model != "wide":
            output, hidden = model(data, hidden)
        else:
            output = model(data, 2.0, torch.ones(5))
    return output.pow(2).mean().item()


def train():
    losses = []
    if args.model not in ("plain", "wide"):
        hidden = model.start(6)
    for step in range(4):
        if args.optimizer:
            optimizer.zero_grad()
        else:
            model.zero_grad()
        if args.model == "plain":
            output = model(data)
        elif args.model == "wide":
            output = model(data, 2.0, torch.ones(5))
        else:
            hidden = hidden.detach()
            output, hidden = model(data, hidden)
        loss = F.cross_entropy(output[:-1].reshape(-1, 7), data[1:].reshape(-1))
        loss.backward()
        if args.optimizer:
            optimizer.step()
        else:
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-args.lr)
        losses.append(loss.item())
    return losses


losses = train()
losses.append(evaluate())
"""


def text(model: str, optimizer: bool = True) -> str:
    head = HEAD.replace("MODEL", model).replace("OPTIMIZER", str(optimizer))
    return head + MAKING + TRAINING


@pytest.mark.parametrize("optimizer", [True, False])
@pytest.mark.parametrize("model", ["plain", "wide", "tanh", "relu"])
def test_each_class_is_called_as_it_takes_it(model: str, optimizer: bool) -> None:
    theirs, ours = rewritten.both(text(model, optimizer))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, four steps
    assert len(set(theirs["losses"])) > 3


def test_weights_are_made_as_each_class_takes_its_input() -> None:
    made = rewritten.clean(text("plain")).text
    assert made.count('if args.model == "plain":\n    params = model.init(') == 1
    assert made.count('elif args.model == "wide":\n    params = model.init(') == 1
    assert "opt_state = optimizer.init(params) if args.optimizer else None\n" in made
    assert made.count("    hidden = None\n") == 1  # in training, which hands it to the step; evaluation needs none


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def evaluate():", "args.model = 'plain'\n\n\ndef evaluate():"),  # the test says something else by then
        ("def evaluate():", "args = argparse.Namespace(model='plain', optimizer=None)\n\n\ndef evaluate():"),
        ("def evaluate():", "def evaluate(args=args):"),  # it may be another object there
        ("def evaluate():", "model = Wide()\n\n\ndef evaluate():"),
        ('if args.model == "plain":\n            output', 'if args.model < "q":\n            output'),  # another test
        ('not in ("plain", "wide")', 'not in ("plain", "other")'),
    ],
)
def test_what_does_not_tell_is_refused(old: str, new: str) -> None:
    source = text("plain")
    assert old in source
    report = rewritten.conversion(source.replace(old, new)).report
    assert report.exit_code == 1 and {"MIG404", "MIG301"} & {found.code for found in report.diagnostics}


IN_A_MATCH = """x = torch.linspace(-1, 2, 24).reshape(6, 4).cos()
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
match len(x):
    case 6:
        for step in range(3):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
"""


def test_a_loop_within_a_match() -> None:
    theirs, ours = rewritten.both(rewritten.NET + IN_A_MATCH)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, three steps

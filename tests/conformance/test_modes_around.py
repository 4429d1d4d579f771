"""Decorators and contexts of a script's own that switch the mode of a model: each evaluates a model with batch
statistics, which starts from constants, after every epoch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import functools
from contextlib import contextmanager
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

x, y = torch.linspace(-1, 1, 24).reshape(8, 3).sin(), torch.linspace(0, 1, 8).reshape(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=4)
net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Tanh(), nn.Linear(2, 1))
nn.init.constant_(net[0].weight, 0.3)
nn.init.constant_(net[0].bias, 0.4)
nn.init.constant_(net[3].weight, -0.5)
nn.init.constant_(net[3].bias, 0.6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses, seen = [], []

"""
TRAIN = """
for epoch in range(3):
    net.train()
    for a, b in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(net(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seen.append(evaluate(net, loader))
"""
EVALUATE = """
def evaluate(model, batches):
    total = 0.0
    for a, b in batches:
        total += F.mse_loss(model(a), b).item()
    return total
"""
IN_CONTEXT = """
def evaluate(model, batches):
    total = 0.0
    with CONTEXT, torch.no_grad():
        for a, b in batches:
            total += F.mse_loss(model(a), b).item()
    return total
"""
GENERATOR = """
@contextmanager
def evaluating(net):
    was = net.training
    try:
        net.eval()
        yield net
    finally:
        if was:
            net.train()
"""
CLASS = """
class Evaluating:
    def __init__(self, model, mode=False):
        self.model = model
        self.mode = mode

    def __enter__(self):
        self.was = self.model.training
        self.model.train(self.mode)
        return self.model

    def __exit__(self, *caught):
        self.model.train(self.was)
"""
DECORATOR = """
def in_eval(fn):
    @functools.wraps(fn)
    def wrapper(model, *args, **kwargs):
        was = model.training
        model.eval()
        try:
            with torch.no_grad():
                return fn(model, *args, **kwargs)
        finally:
            model.train(was)
    return wrapper
"""
PLAIN_DECORATOR = """
def in_eval(fn):
    def inner(net, total):
        net.eval()
        result = fn(net, total)
        net.train()
        return result
    return inner
"""
FORMS = {
    "a decorator": DECORATOR + "\n@in_eval" + EVALUATE,
    "a decorator whose names the function has": PLAIN_DECORATOR + "\n@in_eval\n@torch.no_grad()" + EVALUATE,
    "a generator": GENERATOR + IN_CONTEXT.replace("CONTEXT", "evaluating(model)"),
    "a generator by a name": GENERATOR
    + IN_CONTEXT.replace("CONTEXT", "torch.no_grad(), evaluating(model) as m").replace("model(a)", "m(a)"),
    "a class": CLASS + IN_CONTEXT.replace("CONTEXT", "Evaluating(model)"),
    "a class, left by return": CLASS
    + IN_CONTEXT.replace("CONTEXT", "Evaluating(model)").replace("\n    return total", "\n        return total"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms(form: str) -> None:
    theirs, ours = rewritten.both(HEAD + form + TRAIN)
    assert len(theirs["losses"]) == len(ours["losses"]) == 6
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps
    np.testing.assert_allclose(ours["seen"], theirs["seen"], rtol=1e-5)


def test_of_methods() -> None:
    method = DECORATOR.replace("(model, *", "(self, *").replace("model", "self.model")
    trainer = (
        "\n\nclass Trainer:\n    def __init__(self, model):\n        self.model = model\n\n    @in_eval"
        + EVALUATE.replace("(model, ", "(self, ").replace("model(a)", "self.model(a)").replace("\n", "\n    ")
        + "\n\n"
    )
    train = TRAIN.replace("evaluate(net, ", "trainer.evaluate(")
    theirs, ours = rewritten.both(HEAD + method + trainer + "trainer = Trainer(net)\n" + train)
    np.testing.assert_allclose(ours["seen"], theirs["seen"], rtol=1e-5)  # float32, of a few steps


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_nothing_is_left_of_them(form: str) -> None:
    text = rewritten.clean(HEAD + form + TRAIN).text
    assert "valuating" not in text and "in_eval" not in text and "finally" not in text


UNTOLD = {
    "called again and again": DECORATOR.replace(
        "return fn(model, *args, **kwargs)",
        "for _ in range(2):\n                    out = fn(model, *args, **kwargs)\n                return out",
    )
    + "\n@in_eval"
    + EVALUATE,
    "yields in a loop": GENERATOR.replace("yield net", "for _ in range(1):\n            yield net")
    + IN_CONTEXT.replace("CONTEXT", "evaluating(model)"),
    "left in between": GENERATOR.replace(
        "    try:\n        net.eval()\n        yield net\n    finally:\n        if was:\n    ",
        "    net.eval()\n    yield net\n    if was:\n",
    )
    + IN_CONTEXT.replace("CONTEXT", "evaluating(model)").replace("\n    return total", "\n        return total"),
}


@pytest.mark.parametrize("form", UNTOLD.values(), ids=UNTOLD)
def test_what_does_not_mean_the_same_written_out_is_refused(form: str) -> None:
    made = rewritten.conversion(HEAD + form + TRAIN)
    assert [one.code for one in made.report.diagnostics] == ["MIG403"]

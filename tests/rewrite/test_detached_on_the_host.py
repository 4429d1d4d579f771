"""`.detach()` goes where a statement runs once, as it stands, and stays wherever a gradient may be taken."""

from __future__ import annotations

import numpy as np
import torch

from tests.conformance.rewritten import clean, executed

SCRIPT = """\
import torch
from torch.func import grad


def loss(w):
    return (w.detach() * w).sum()


def helper(w):
    return w.detach() * w


def solve(function, at):
    return grad(function)(at)


x = torch.arange(3.0)
plain = (x * 2).detach() + 1
of_function = grad(loss)(x)
of_lambda = grad(lambda w: (w.detach() * w).sum())(x)
of_named_lambda = lambda w: (w.detach() * w).sum()
of_named = grad(of_named_lambda)(x)
of_argument = solve(loss, x)
of_helper = torch.autograd.functional.jacobian(helper, x)
w = torch.ones(3, requires_grad=True)
y = (w * x.detach() + w.detach()).sum()
y.backward()
left = w.grad.detach()
"""
VALUES = ("plain", "of_function", "of_lambda", "of_named", "of_argument", "of_helper", "left")


def test_gradients_are_torchs() -> None:
    text = clean(SCRIPT).text
    theirs: dict[str, torch.Tensor] = {}
    exec(SCRIPT, theirs)
    ours = executed(text)
    for name in VALUES:
        np.testing.assert_array_equal(ours[name], theirs[name].numpy())


def test_what_runs_once_has_no_gradient_to_stop() -> None:
    text = clean(SCRIPT).text
    assert "plain = (x * 2) + 1\n" in text
    assert text.count("stop_gradient") == 6  # two functions, two lambdas, and two operands of the loss

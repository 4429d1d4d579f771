"""Tensors that scripts train without a model, in lists and from functions of their own, and generators of their own."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten

HEAD = """import torch
import torch.nn.functional as F
from torch.autograd import Variable

x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = torch.sin(torch.linspace(0, 5, 16)).reshape(8, 2)
losses = []


def start(size, scale=0.1):
    made = torch.arange(size[0] * size[1], dtype=torch.get_default_dtype()).reshape(size)
    return Variable(scale * made, requires_grad=True)


def shifted(size):
    made = torch.linspace(-1, 1, size)
    made.requires_grad_()
    return made
"""
MAKE = """
W1 = start([3, 4])
b1 = torch.zeros(4, requires_grad=True)
W2 = start([4, 2])
b2 = shifted(2)
"""
PARAMETERS = """
def grid(rows, columns):
    made = 0.1 * torch.arange(float(rows * columns))
    return torch.nn.Parameter(made.reshape(rows, columns))


W1, b1 = torch.nn.Parameter(data=0.1 * torch.arange(12.0).reshape(3, 4)), torch.nn.Parameter(torch.zeros(4))
W2 = grid(4, 2)
b2 = torch.linspace(-1, 1, 2)
b2 = torch.nn.Parameter(b2, True)
still = torch.nn.Parameter(torch.ones(2), requires_grad=False)
y = y * still
"""
PLAIN = """
W1 = 0.1 * torch.arange(12.0).reshape(3, 4)
b1 = torch.zeros(4)
W2 = 0.1 * torch.arange(8.0).reshape(4, 2)
b2 = torch.linspace(-1, 1, 2)
parameters = [W1, b1, W2, b2]
count = sum(p.nelement() for p in parameters)
for p in parameters:
    p.requires_grad = True
"""
LOOP = """
for step in range(6):
    {before}
    loss = F.mse_loss(torch.tanh(x @ W1 + b1) @ W2 + b2, y)
    loss.backward()
    {after}
    losses.append(loss.item())
total = float(sum((p.detach() ** 2).sum() for p in [W1, b1, W2, b2]))
"""
NONE, STEP = "pass", "optimizer.step(); optimizer.zero_grad()"
DESCENT = """for p in parameters:
        p.data += -0.05 * p.grad"""
DESCEND = """
def descend(params, lr, size=1):
    \"\"\"A step.\"\"\"
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad / size
            param.grad.zero_()

"""
CLEAR = """
@torch.no_grad()
def descend(params, lr, size):
    for p in params:
        p.sub_(lr * p.grad / size)
    for p in params:
        p.grad = None

"""
FILLED = """
W1, b1 = torch.empty(3, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
W2 = torch.empty((4, 2), requires_grad=True)
b2 = shifted(2)
torch.nn.init.constant_(W1, 0.3)
torch.nn.init.constant_(W2, val=0.2)
torch.nn.init.ones_(b1)
"""
FORMS = {
    "filled by functions of nn.init": (FILLED + "optimizer = torch.optim.SGD([W1, b1, W2, b2], lr=0.05)", NONE, STEP),
    "made by functions": (MAKE + "optimizer = torch.optim.Adam([W1, b1, W2, b2], lr=0.05)", NONE, STEP),
    "parameters without a module": (
        PARAMETERS + "optimizer = torch.optim.Adam([W1, b1, W2, b2], lr=0.05)",
        NONE,
        STEP,
    ),
    "a step by hand before an optimizer is made": (
        MAKE
        + """F.mse_loss(torch.tanh(x @ W1 + b1) @ W2 + b2, y).backward()
W1.data = W1.data - 0.1 * W1.grad.data
b1.data -= 0.1 * b1.grad
optimizer = torch.optim.SGD([W1, b1, W2, b2], lr=0.05)""",
        NONE,
        STEP,
    ),
    "lists that are joined": (
        MAKE + "first, second = [W1, b1], [W2, b2]\nboth = first + second\noptimizer = torch.optim.Adam(both, lr=0.05)",
        "optimizer.zero_grad()",
        "optimizer.step()",
    ),
    "two optimizers": (
        MAKE + "first = [W1, b1]\na, b = torch.optim.SGD(first, lr=0.1), torch.optim.Adam([W2, b2], lr=0.01)",
        "a.zero_grad(); b.zero_grad()",
        "a.step(); b.step()",
    ),
    "gradients cleared where they are": (
        MAKE + "parameters = [W1, b1, W2, b2]\noptimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)",
        NONE,
        """optimizer.step()
    for p in parameters:
        if p.grad is not None:
            data = p.grad.data
            p.grad = Variable(data.new().resize_as_(data).zero_())""",
    ),
    "gradients cleared by a function": (
        MAKE
        + """parameters = [W1, b1, W2, b2]
optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def reset():
    for p in parameters:
        if p.grad is not None:
            p.grad.detach_()
            p.grad.zero_()
""",
        NONE,
        "optimizer.step()\n    reset()",
    ),
    "descent by hand": (
        MAKE + "parameters = [W1, b1, W2, b2]",
        NONE,
        """with torch.no_grad():
        for p in parameters:
            p -= 0.05 * p.grad
            p.grad.zero_()""",
    ),
    "descent by a function": (
        DESCEND + MAKE + "parameters = [W1, b1, W2, b2]\nrate, param = 0.1, 3.0",
        NONE,
        "descend([W1, b1], rate / 2)\n    descend((W2, b2), rate, size=len(parameters))\n    losses.append(param)",
    ),
    "descent by a function with a context of its own": (
        CLEAR + MAKE + "parameters = [W1, b1, W2, b2]",
        NONE,
        "descend(parameters, lr=0.05, size=1.0)",
    ),
    "asked for gradients in turn": (PLAIN, "for p in parameters:\n        p.grad = None", DESCENT),
}


@pytest.mark.parametrize("name", FORMS)
def test_same_losses(name: str, float64: None) -> None:
    made, before, after = FORMS[name]
    text = HEAD + made + LOOP.format(before=before, after=after)
    theirs, ours = rewritten.both(text)
    for what in ("losses", "total"):
        np.testing.assert_allclose(ours[what], theirs[what], rtol=1e-9)
    assert ours.get("count") == theirs.get("count")
    assert len(set(theirs["losses"])) > 1


@pytest.mark.parametrize("use", ["kept = descend", "descend([W1, b1], float(x.sum()))", "print(descend([W1], 0.1))"])
def test_a_function_that_is_used_otherwise_stays(use: str) -> None:
    text = HEAD + DESCEND + MAKE + LOOP.format(before="descend([W1, b1, W2, b2], 0.1)", after=use)
    assert convert(parse("train.py", text)).report.diagnostics


def test_a_list_keeps_the_tensor_that_a_name_had() -> None:
    """The first optimizer goes on with a tensor that no name has any more."""
    rebound = """
parameters = [W1, b1, W2]
first = torch.optim.Adam(parameters, lr=0.05)
W1 = start([3, 4])
optimizer = torch.optim.Adam([W1, b2], lr=0.05)
"""
    made = convert(parse("x.py", HEAD + MAKE + rebound + LOOP.format(before=NONE, after=STEP)))
    assert "W1 is bound anew, and parameters has the tensor that it was" in made.report.as_text()


DRAWN = """import torch

g = torch.Generator().manual_seed(7)
W = torch.randn((3, 2), generator=g, requires_grad=True)
rows = []
for step in range(2):
    index = torch.randint(0, 5, (4,), generator=g)
    rows.append(index)
g.manual_seed(7)
again = torch.randn((3, 2), generator=g)
"""


def test_a_generator_that_only_draws_is_a_key() -> None:
    text = rewritten.clean(DRAWN).text
    assert "torch" not in text
    assert "g = jax.random.key(7)" in text
    ours = rewritten.executed(text)
    np.testing.assert_array_equal(ours["W"], ours["again"])  # the same numbers from the same seed
    assert not np.array_equal(ours["rows"][0], ours["rows"][1])
    assert ours["rows"][0].shape == (4,)


@pytest.mark.parametrize(
    "use",
    [
        "loader = torch.utils.data.DataLoader(list(range(8)), shuffle=True, generator=g)",
        "def draw():\n    return torch.rand(2, generator=g)",
        "kept = {'g': g}",
        "numbers = [torch.rand(1, generator=g) for _ in range(3)]",
    ],
)
def test_a_generator_that_goes_elsewhere_stays_torch(use: str) -> None:
    made = convert(parse("x.py", f"{DRAWN}{use}\n"))
    assert "g = torch.Generator().manual_seed(7)" in made.text


def test_a_tensor_that_shares_its_memory_with_a_parameter_stays_torch() -> None:
    text = "import torch\nstart = torch.zeros(2)\nw = torch.nn.Parameter(start)\nprint(w, start)\n"
    found = convert(parse("train.py", text)).report.diagnostics
    assert [(one.code, one.line) for one in found] == [("MIG202", 3)]

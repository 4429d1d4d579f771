"""Numbers that make a program another one, an axis, a size, a rate of dropout: a loss has them in variables."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


"""
NET = """    net = nn.Linear(6, 4)
    nn.init.constant_(net.bias, 0.1)
    with torch.no_grad():
        net.weight.copy_(torch.linspace(-1, 1, 24).reshape(4, 6).sin())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.linspace(-3, 2, 24).reshape(4, 6).cos(), torch.tensor([0, 1, 2, 1])
    losses = []
    for step in range(3):
"""
END = """        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


"""
AXES = [
    "h.sum(dim=d)", "h.softmax(dim=d)", "h.cumsum(d)", "h.transpose(0, d)", "h.unsqueeze(d)", "h.flip(d)",
    "h.gather(d, y[:, None])", "h.movedim(0, d)", "h.logsumexp(d)", "torch.cat([h, h], d)", "F.glu(h, dim=d)",
    "F.cosine_similarity(h, h.roll(d, 0), dim=d)", "h.median(dim=d).values", "h.mean(dim=d, keepdim=yes)", "h.tril(d)",
    "torch.diagonal(h, d)", "torch.rot90(h, d)",
]  # fmt: skip
SIZES = [
    "h.topk(n, dim=1)[0]", "F.one_hot(y, n + 2) * h", "h.repeat(n, 1)", "h.chunk(n, dim=1)[0]", "h - torch.eye(n * 2)",
    "h * torch.linspace(0, 1, n + 2)", "torch.full((n, n), 2.0) + h.mean()", "h.narrow(1, 0, n)", "F.pad(h, (n, 0))",
    "h.repeat_interleave(n, dim=0)", "h[None].expand(n, 4, 4)", "h.kthvalue(n, dim=1)[0]", "h[:, :n]", "h[:, n]",
    "torch.stack([h] * n)", "h.view(n, -1)", "F.avg_pool1d(h[None], n)", "F.interpolate(h[None], scale_factor=n)",
    "h.unfold(1, n, 1)", "h.split(n, dim=1)[0]", "torch.tensordot(h, h, n - 1)",
]  # fmt: skip
WAYS = [
    "h.norm(p=p, dim=1)", "F.dropout(h, zero)", "F.cross_entropy(h, y, label_smoothing=rate)", "h.clamp(min=rate)",
    "F.leaky_relu(h, rate)", "h**p", "F.smooth_l1_loss(h, h.roll(1, 0), beta=rate)", "h.quantile(rate, dim=1)",
    "F.triplet_margin_loss(h, h.roll(1, 0), h.roll(2, 0), margin=rate)", "F.cross_entropy(h, y, ignore_index=p)",
    "h - h.round(decimals=p)",
]  # fmt: skip
NUMBERS = {"d": 1, "n": 2, "p": 2, "rate": 0.25, "zero": 0.0, "yes": True}


@pytest.mark.parametrize("forms", [AXES, SIZES, WAYS])
@pytest.mark.parametrize("settings", [False, True])
def test_jit_knows_them(forms: list[str], settings: bool) -> None:
    loss = " + ".join(f"({form} ** 2).mean()" for form in forms)
    given = ", ".join(f"{name}={value}" for name, value in NUMBERS.items())
    names = ", ".join(NUMBERS)
    if settings:
        loss = re.sub(rf"(?<![\w.])({'|'.join(NUMBERS)})\b(?!=)", r"args.\1", loss)
        given, names = f"argparse.Namespace({given})", "args"
    text = f"{HEAD}def main({names}):\n{NET}        h = net(x)\n        loss = {loss}\n{END}losses = main({given})\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, sums of some twenty terms


IN_FUNCTIONS = {
    "a parameter": ("def loss_of(h, k):\n    return h.topk(k, dim=1)[0].mean()\n", "loss_of(h, k)"),
    "an attribute": ("def loss_of(h, k):\n    return h.topk(k, dim=1)[0].mean()\n", "loss_of(h, args.k)"),
    "what is made of it": ("def loss_of(h, k):\n    n = k + 1\n    return h.topk(n)[0].mean()\n", "loss_of(h, k)"),
    "on its way": (
        "def inner(h, k):\n    return h.topk(k, dim=1)[0].mean()\n\n\ndef loss_of(h, k):\n    return inner(h, k + 1)\n",
        "loss_of(h, k)",
    ),
    "an object": ("def loss_of(h, args):\n    return h.topk(args.k)[0].mean() * args.w\n", "loss_of(h, args)"),
    "an object by name": (
        "def rate_of(settings):\n    return settings.w\n\n\n"
        "def loss_of(h, settings, more=1):\n    return h.topk(settings.k)[0].mean() * rate_of(settings) * more\n",
        "loss_of(h, settings=args, more=2)",
    ),
    "in the step": ("", "h.topk(args.k + 1)[0].mean()"),
}


@pytest.mark.parametrize("name", IN_FUNCTIONS)
def test_so_it_does_in_functions(name: str) -> None:
    defined, loss = IN_FUNCTIONS[name]
    body = f"def main(args, k):\n{NET}        h = net(x)\n        loss = {loss}\n{END}"
    text = f"{HEAD}{defined}\n\n{body}losses = main(argparse.Namespace(k=2, w=0.5), 2)\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("k + 1", []),
        ("len(words)", []),
        ("len(seen)", ["MIG514"]),
        ("step + 1", ["MIG514"]),
    ],
)
def test_what_differs_from_turn_to_turn_is_told(number: str, told: list[str]) -> None:
    seen = "        seen.append(step)\n        del seen[2:]\n"
    turn = f"        h = net(x)\n{seen}        n = {number}\n        loss = h.topk(n)[0].mean()\n{END}"
    text = f"{HEAD}words, seen = ['a', 'b'], []\n\n\ndef main(k):\n{NET}{turn}losses = main(1)\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert [found.code for found in rewritten.conversion(text).report.diagnostics] == told


def test_functions_are_given_what_they_read() -> None:
    defined, loss = IN_FUNCTIONS["an object"]
    body = f"def main(args):\n{NET}        h = net(x)\n        loss = {loss}\n{END}"
    made = rewritten.clean(f"{HEAD}{defined}\n\n{body}losses = main(argparse.Namespace(k=2, w=0.5))\n").text
    assert "def loss_of(h, k, w):" in made and "loss_of(h, k, w)" in made


def test_an_object_that_is_more_than_read_is_refused() -> None:
    defined = "def loss_of(h, args):\n    return h.mean() * args.w * len(vars(args))\n"
    body = f"def main(args):\n{NET}        loss = loss_of(net(x), args)\n{END}"
    report = rewritten.conversion(f"{HEAD}{defined}\n\n{body}losses = main(argparse.Namespace(w=1.0))\n").report
    assert [found.code for found in report.diagnostics] == ["MIG401"]


@pytest.mark.parametrize("norm", ['float("inf")', "torch.inf", "p", "args.p"])
@pytest.mark.parametrize("accumulated", [False, True])
def test_the_norm_of_clipping(norm: str, accumulated: bool) -> None:
    step = [f"nn.utils.clip_grad_norm_(net.parameters(), 0.1, norm_type={norm})", "opt.step()", "opt.zero_grad()"]
    lines = ["loss = (net(x) ** 2).mean()", "loss.backward()", "losses.append(loss.item())"]
    lines += ["if (step + 1) % 2 == 0:", *(f"    {line}" for line in step)] if accumulated else step
    body = "".join(f"        {line}\n" for line in lines)
    text = f"{HEAD}def main(args, p):\n{NET}{body}    return losses\n\n\nlosses = main(argparse.Namespace(p=3), 1)\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


DECIDED = {
    "in a forward pass": "return h * 2 if step >= 1 else h",
    "in a branch": "if step > 1:\n            h = h * 2\n        return h",
    "in a part": "return self.part(h, step)",
    "beside a test for None": "if step is None:\n            return h\n        return h * 2 if step else h",
    "not at all": "if step is None:\n            return h\n        return h * (step + 1)",
}


@pytest.mark.parametrize("name", DECIDED)
def test_forward_passes_that_decide_by_a_number(name: str) -> None:
    """None tells an argument that is there from one that is not, whatever number it is."""
    text = f"""{HEAD}class Part(nn.Module):
    def forward(self, h, number):
        return h if number < 2 else 3 * h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.part = nn.Linear(6, 4), Part()
        nn.init.constant_(self.fc.weight, 0.1)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, x, step=None):
        h = self.fc(x)
        {DECIDED[name]}


net, losses = Net(), []
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.linspace(-3, 2, 24).reshape(4, 6).cos()
for step in range(3):
    loss = (net(x, step) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
"""
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    told = [found.code for found in rewritten.conversion(text).report.diagnostics]
    assert told == ([] if name == "not at all" else ["MIG514"])

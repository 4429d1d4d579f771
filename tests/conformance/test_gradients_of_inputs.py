"""Gradients by inputs, as attacks and penalties take them: each trains a model that starts from constants, with what
the gradient has made of its inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

x, y = torch.linspace(-1, 1, 24).reshape(8, 3), torch.linspace(0, 1, 8).reshape(8, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=4)
net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
nn.init.constant_(net[0].weight, 0.3)
nn.init.constant_(net[0].bias, 0.4)
nn.init.constant_(net[2].weight, -0.5)
nn.init.constant_(net[2].bias, 0.6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses, seen = [], []

"""
TRAIN = """
        optimizer.zero_grad()
        loss = F.mse_loss(net(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
LOOP = "for epoch in range(2):\n    for a, b in loader:\n        CHANGE" + TRAIN
FORMS = {
    "a function": (
        "def attack(net, a, b, eps):\n"
        "    a = a.clone().detach().requires_grad_(True)\n"
        "    loss = F.mse_loss(net(a), b)\n"
        "    loss.backward()\n"
        "    return torch.clamp(a + eps * a.grad.sign(), -1, 1).detach()\n\n\n",
        "a = attack(net, a, b, 0.1)",
    ),
    "step by step": (
        "def attack(net, a, b, eps=0.3):\n"
        "    first = a.data\n"
        "    for i in range(3):\n"
        "        a.requires_grad = True\n"
        "        net.zero_grad()\n"
        "        cost = F.mse_loss(net(a), b)\n"
        "        cost.backward()\n"
        "        moved = a + 0.05 * a.grad.sign()\n"
        "        a = (first + torch.clamp(moved - first, min=-eps, max=eps)).detach_()\n"
        "    return a\n\n\n",
        "a = attack(net, a, b)",
    ),
    "a difference that grows": (
        "def attack(net, a, b):\n"
        "    delta = torch.zeros_like(a, requires_grad=True)\n"
        "    for _ in range(3):\n"
        "        loss = F.mse_loss(net(a + delta), b)\n"
        "        loss.backward()\n"
        "        delta.data = (delta + 0.1 * delta.grad.detach().sign()).clamp(-0.2, 0.2)\n"
        "        delta.grad.zero_()\n"
        "    return delta.detach()\n\n\n",
        "a = a + attack(net, a, b)",
    ),
    "in the loop": (
        "",
        "a.requires_grad = True\n"
        "        net.zero_grad()\n"
        "        F.mse_loss(net(a), b).backward()\n"
        "        by_input = a.grad.data\n"
        "        a = (a + 0.1 * by_input.sign()).detach()",
    ),
    "by autograd, bound again": (
        "def attack(net, a, b):\n"
        "    moved = a.detach() + 0.01\n"
        "    for _ in range(3):\n"
        "        moved.requires_grad_()\n"
        "        with torch.enable_grad():\n"
        "            loss = F.mse_loss(net(moved), b)\n"
        "        grad = torch.autograd.grad(loss, [moved])[0]\n"
        "        moved = moved.detach() + 0.05 * torch.sign(grad.detach())\n"
        "        moved = torch.min(torch.max(moved, a - 0.2), a + 0.2)\n"
        "    return moved\n\n\n",
        "a = attack(net, a, b)",
    ),
    "added up with those of training": (
        "",
        "a.requires_grad_()\n"
        "        optimizer.zero_grad()\n"
        "        out = net(a)\n"
        "        by_input, = torch.autograd.grad(out.sum(), a, create_graph=True)\n"
        "        loss = F.mse_loss(out, b) + by_input.pow(2).sum(1).mean()\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        a = a.detach()",
    ),
}


@pytest.mark.parametrize(("function", "change"), FORMS.values(), ids=FORMS)
def test_forms(function: str, change: str) -> None:
    theirs, ours = rewritten.both(HEAD + function + LOOP.replace("CHANGE", change))
    assert len(theirs["losses"]) == len(ours["losses"]) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


def test_what_they_leave_behind_is_told_of_in_the_manifest() -> None:
    """A backward pass that trains nothing is no step for `migrate parity`."""
    function, change = FORMS["a function"]
    source = HEAD + function + LOOP.replace("CHANGE", change)
    line = source[: source.index("loss.backward()")].count("\n") + 1
    made = rewritten.conversion(source)
    assert [place.rpartition(":")[2] for place in made.manifest.by_inputs] == [str(line)]
    assert "value_and_grad" in made.text and "jax.grad(" in made.text


def test_gradients_that_an_optimizer_steps_by_stay() -> None:
    """What an attack adds to the gradients of the weights, torch steps by, if nothing clears it before."""
    function, change = FORMS["a function"]
    late = TRAIN.replace("        optimizer.zero_grad()\n", "") + "        optimizer.zero_grad()\n"
    made = rewritten.conversion(HEAD + function + LOOP.replace("CHANGE", change).replace(TRAIN, late))
    assert not made.manifest.by_inputs
    assert made.report.diagnostics  # the sum of both is not what an attack is made of


SALIENCY = """
one = x[:1].clone()
one.requires_grad_()
scores = net(one)
scores[0, scores.argmax()].backward()
seen.append(one.grad.abs().max(1)[0].item())
"""


def test_a_map_of_what_counts() -> None:
    theirs, ours = rewritten.both(HEAD + LOOP.replace("CHANGE", "pass") + SALIENCY)
    np.testing.assert_allclose(ours["seen"], theirs["seen"], rtol=1e-5)  # float32


BY_HAND = """
def fit():
    w = torch.zeros(3, 1, requires_grad=True)
    for a, b in loader:
        loss = F.mse_loss(a @ w, b)
        loss.backward()
        CHANGE
        w.grad.zero_()
        losses.append(loss.item())


fit()
"""


@pytest.mark.parametrize("change", ["w.data -= 0.1 * w.grad", "w.data = w.data - 0.1 * w.grad.data"])
def test_what_is_trained_by_hand_is_no_input(change: str) -> None:
    source = HEAD.replace("optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n", "")
    source += BY_HAND.replace("CHANGE", change)
    theirs, ours = rewritten.both(source)
    assert not rewritten.conversion(source).manifest.by_inputs
    assert len(theirs["losses"]) == len(ours["losses"]) == 2
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


def test_attacks_alone_are_steps() -> None:
    """Of a script that trains nothing they are what `migrate parity` compares."""
    function, _ = FORMS["a function"]
    source = HEAD.replace("optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n", "")
    source += function + "for a, b in loader:\n    seen.append(attack(net, a, b, 0.1).sum().item())\n"
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["seen"], theirs["seen"], rtol=1e-5, atol=1e-6)  # float32
    assert not rewritten.conversion(source).manifest.by_inputs


MODES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.fc = nn.Linear(3, 1)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, x):
        return self.fc(self.norm(x))


def attack(net, a, b):
    moved = a.clone().detach()
    for _ in range(2):
        moved.requires_grad_(True)
        loss = F.mse_loss(net(moved), b)
        grad = torch.autograd.grad(loss, moved, create_graph=False)[0]
        moved = moved.detach() + 0.05 * grad.sign()
    return moved


def train(net, optimizer):
    net.train()
    for epoch in range(2):
        for a, b in loader:
            net.eval()
            moved = attack(net, a, b)
            net.train()
            optimizer.zero_grad()
            loss = F.mse_loss(net(a), b) + F.mse_loss(net(moved), b)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())


model = Net()
train(model, torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize("cut", ["return moved", "return (moved + net(a).mean()).detach()"])
def test_an_attack_in_eval_mode_is_no_part_of_the_loss(cut: str) -> None:
    """Batch norm takes what it has learnt by then, and learns nothing of what is attacked."""
    theirs, ours = rewritten.both(HEAD + MODES.replace("return moved", cut))
    assert len(theirs["losses"]) == len(ours["losses"]) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


def test_a_loss_through_a_model_in_two_modes_is_refused() -> None:
    made = rewritten.conversion(HEAD + MODES.replace("return moved", "return moved + net(a).mean()"))
    assert made.report.exit_code == 1

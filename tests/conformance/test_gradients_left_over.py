"""Gradients that a step leaves to another model, and that are cleared after it: they start as zeros all the same."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
import torch.optim as optim

G = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4), torch.nn.Sigmoid())
D = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
for p in G.parameters():
    nn.init.constant_(p, 0.3)
for p in D.parameters():
    nn.init.constant_(p, 0.2)


def reset_grad():
    G.zero_grad()
    D.zero_grad()


G_solver = optim.Adam(G.parameters(), lr=0.1)
D_solver = optim.Adam(D.parameters(), lr=0.1)
losses = []
for it in range(3):
    for _ in range(2):
        z = torch.ones(5, 3)
        X = torch.arange(20.0).view(5, 4) / 20
        G_sample = G(z)
        D_real = D(X)
        D_fake = D(G_sample)
        D_loss = 0.5 * (torch.mean((D_real - 1) ** 2) + torch.mean(D_fake ** 2))
        D_loss.backward()
        D_solver.step()
        reset_grad()
    z = torch.ones(5, 3)
    G_sample = G(z)
    D_fake = D(G_sample)
    G_loss = 0.5 * torch.mean((D_fake - 1) ** 2)
    G_loss.backward()
    G_solver.step()
    reset_grad()
    losses.append(G_loss.item())
"""


def test_they_are_there_before_the_first_step() -> None:
    theirs, ours = rewritten.both(SCRIPT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


PHASES = """import torch
import torch.nn as nn

net = nn.Linear(3, 1)
for p in net.parameters():
    nn.init.constant_(p, 0.3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []


def steps():
    for i in range(2):
        loss = net(torch.ones(2, 3) * (i + 1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())


def sums():
    for i in range(4):
        loss = net(torch.ones(2, 3) * (i - 1.5)).pow(2).mean() / 2
        loss.backward()
        if (i + 1) % 2 == 0:
            opt.step()
            opt.zero_grad()
        losses.append(loss.item())


for phase in range(2):
    steps()
    sums()
"""


def test_what_a_step_leaves_is_added_to() -> None:
    for text in (PHASES, _inlined(PHASES)):
        theirs, ours = rewritten.both(text)
        np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32 over twelve steps


def test_what_is_cleared_first_is_not_given_back() -> None:
    cleared = PHASES.replace("def sums():\n", "def sums():\n    opt.zero_grad()\n")
    text = rewritten.clean(_inlined(cleared)).text
    assert 'metrics["grads"]' in rewritten.clean(_inlined(PHASES)).text and 'metrics["grads"]' not in text
    theirs, ours = rewritten.both(_inlined(cleared))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def test_a_clearing_that_may_be_skipped_is_none() -> None:
    steps = "        losses.append(loss.item())\n\n\ndef sums"
    leaving = "        if i == 1:\n            break\n        opt.zero_grad()\n"
    skipped = steps.replace("\n\n\n", f"\n{leaving}\n\n")
    theirs, ours = rewritten.both(_inlined(PHASES.replace(steps, skipped)))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def _inlined(text: str) -> str:
    """The same without functions."""
    head, steps, sums, loop = text.split("\n\n\n")
    bodies = (each.partition("\n")[2] for each in (steps, sums))
    return "\n\n\n".join([head, loop.partition("\n")[0] + "\n" + "\n".join(bodies) + "\n"])

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

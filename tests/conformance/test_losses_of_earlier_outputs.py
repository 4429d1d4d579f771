"""Losses whose terms, each in a statement of its own, go on from what was computed before another network's step: as
in a GAN whose generator has a pixel loss beside the adversarial one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
from torch import nn

torch.manual_seed(0)
G, H, D = nn.Linear(3, 2), nn.Linear(2, 3), nn.Linear(2, 1)
for layer in (G, H, D):
    nn.init.constant_(layer.weight, 0.2)
    nn.init.constant_(layer.bias, 0.05)
bce, l1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
X, Y = torch.arange(24.0).reshape(8, 3) / 10, torch.linspace(-1, 1, 16).reshape(8, 2)
optD = torch.optim.Adam(D.parameters(), lr=0.1)
optG = torch.optim.Adam(PARAMETERS, lr=0.1)
lam, losses, seen = 10, [], []
for i in range(0, 8, 4):
    a, b = X[i : i + 4], Y[i : i + 4]
    fake = G(a)
"""
DISCRIMINATOR = """    optD.zero_grad()
    loss_d = (bce(D(b), torch.ones(4, 1)) + bce(D(fake.detach()), torch.zeros(4, 1))) / 2
    loss_d.backward()
    optD.step()
    optG.zero_grad()
"""
STEP = """    loss_g.backward()
    optG.step()
    losses += [loss_g.item(), loss_d.item()]
"""
TERMS = {
    "a term of its own": "    pixel = l1(fake, b) * lam\n    loss_g = bce(D(fake), torch.ones(4, 1)) + pixel\n",
    "after the discriminator": "    out = D(fake)\n    adversarial = bce(out, torch.ones(4, 1))\n"
    "    pixel = l1(fake, b) * lam\n    loss_g = adversarial + pixel\n",
    "kept": "    pixel = l1(fake, b) * lam\n    seen.append(pixel.item())\n"
    "    loss_g = bce(D(fake), torch.ones(4, 1)) + pixel\n",
    "in steps": "    error = fake - b\n    pixel = error.abs().mean()\n"
    "    smooth = (error[1:] - error[:-1]).pow(2).mean()\n"
    "    loss_g = bce(D(fake), torch.ones(4, 1)) + lam * pixel + smooth\n",
    "in a branch": "    loss_g = bce(D(fake), torch.ones(4, 1))\n    if lam > 0:\n        pixel = l1(fake, b)\n"
    "        loss_g = loss_g + lam * pixel\n",
    "cut off": "    target = fake.detach() * 0.5\n    pixel = l1(fake, target) * lam\n"
    "    loss_g = bce(D(fake), torch.ones(4, 1)) + pixel\n",
}


@pytest.mark.parametrize("name", TERMS)
def test_losses_are_torchs(name: str) -> None:
    text = HEAD.replace("PARAMETERS", "G.parameters()").replace(
        "G, H, D = nn.Linear(3, 2), nn.Linear(2, 3),", "G, D = nn.Linear(3, 2),"
    )
    theirs, ours = rewritten.both(text.replace("(G, H, D)", "(G, D)") + DISCRIMINATOR + TERMS[name] + STEP)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4)  # Adam's first steps: g / |g|
    np.testing.assert_allclose(ours["seen"], theirs["seen"], rtol=1e-4)


def test_two_networks_in_turn() -> None:
    text = HEAD.replace("PARAMETERS", "[*G.parameters(), *H.parameters()]") + "    back = H(fake)\n"
    terms = "    cycle = l1(back, a) * lam\n    loss_g = bce(D(fake), torch.ones(4, 1)) + cycle\n"
    theirs, ours = rewritten.both(text + DISCRIMINATOR + terms + STEP)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4)

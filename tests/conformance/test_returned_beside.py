"""What a forward pass keeps on its module, `self.last_loss = loss`, and others read after it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 4)
        self.out = nn.Linear(4, 2)
        for weight in self.parameters():
            nn.init.constant_(weight, 0.1)
        self.last_loss = None

    def forward(self, x, targets=None):
        logits = self.out(torch.tanh(self.hidden(x)))
        if targets is not None:
            self.last_loss = F.cross_entropy(logits, targets)
        else:
            self.last_loss = None
        return logits


x, y = torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([0, 1, 1, 1])
losses = []
"""
MODULE_LEVEL = """
model = Net()
raw_model = model
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)


@torch.no_grad()
def estimate():
    model.eval()
    logits = model(x, y)
    loss = raw_model.last_loss
    model.train()
    return loss.item() + logits.sum().item()


for step in range(4):
    logits = model(x, y)
    loss = raw_model.last_loss
    loss = loss / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    losses.append(estimate())
losses.append(model(x[:1]).sum().item())
"""
TRAINER = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.model(x, y)
        self.model.last_loss.backward()
        self.optimizer.step()
        return self.model(x).sum().item()


trainer = Trainer(Net())
for step in range(4):
    losses.append(trainer.step(x, y))
"""


@pytest.mark.parametrize("loop", [MODULE_LEVEL, TRAINER])
def test_it_is_returned_beside_the_output(loop: str) -> None:
    theirs, ours = rewritten.both(NET + loop)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, a few steps
    made = rewritten.clean(NET + loop).text
    assert "self.last_loss" not in made and "return self.forward_with_last_loss(x, targets)[0]" in made


PARTS = """import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)
        for weight in self.parameters():
            nn.init.constant_(weight, 0.1)
        self.kl = 0
        self.seen = 0

    def forward(self, x):
        mean = self.mean(x)
        self.kl = (mean**2).sum()
        self.seen = mean.abs().mean()
        return mean, mean + 1


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = nn.Linear(2, 3)
        for weight in self.decoder.parameters():
            nn.init.constant_(weight, 0.2)

    def forward(self, x):
        mean, more = self.encoder(x)
        return self.decoder(mean * more)


model = Whole()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.linspace(-1, 1, 12).reshape(4, 3)
losses = []
for step in range(4):
    found = model(x)
    loss = ((x - found) ** 2).sum() + model.encoder.kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += [loss.item(), model.encoder.seen.item()]
"""


def test_so_is_what_parts_keep() -> None:
    theirs, ours = rewritten.both(PARTS)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    made = rewritten.clean(PARTS).text
    assert "(mean, more), kl, seen = self.encoder.forward_with_kl_and_seen(x)" in made
    assert "return self.decoder(mean * more), kl, seen" in made


LOOP = "for step in range(4):\n    logits = model(x, y)\n    loss = raw_model.last_loss\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        else:\n            self.last_loss = None\n", ""),  # of an earlier pass
        (LOOP, LOOP.replace("    loss", "    model(x[:1])\n    loss").replace("model(x[:1])", "if step: model(x[:1])")),
        ("model(x[:1]).sum()", "model(x[:1]).sum() + (raw_model.last_loss or 0)"),  # of the pass in its own statement
        ("    return loss.item() + l", "    read()\n    return loss.item() + l"),  # in another function
        (
            LOOP,
            LOOP.replace("    loss", "    again()\n    loss").replace(
                "for step", "def again():\n    model(x)\n\n\nfor step"
            ),
        ),
        (LOOP, LOOP.replace("    loss", "    print(sum(map(model, [x])))\n    loss")),
        ("    def forward(", "    def again(self, x):\n        self.last_loss = x.sum()\n\n    def forward("),
    ],
)
def test_what_may_be_of_another_pass_is_refused(old: str, new: str) -> None:
    text = NET + "\n\ndef read():\n    return raw_model.last_loss\n" + MODULE_LEVEL
    text = text if "read()" in new else text.replace("\n\ndef read():\n    return raw_model.last_loss\n", "")
    assert old in text
    found = {one.code for one in rewritten.conversion(text.replace(old, new)).report.diagnostics}
    assert "MIG201" in found

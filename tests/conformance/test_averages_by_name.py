"""Averages of weights in a dict of the script's own, changed in place: `ema[k].mul_(d).add_(v, alpha=1 - d)`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import copy
import torch
import torch.nn as nn

net = nn.Linear(4, 2)
nn.init.constant_(net.weight, 0.2)
nn.init.constant_(net.bias, 0.1)
ema = {k: v.clone() for k, v in net.state_dict().items()}
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
x = torch.linspace(-1, 1, 24).reshape(6, 4)
found = []
for step in range(4):
    loss = ((net(x) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for k, v in net.state_dict().items():
            UPDATE
    found.append(loss.item())
net.load_state_dict(ema)
with torch.no_grad():
    found += net(x).flatten().tolist()
"""
CLASS = """import torch
import torch.nn as nn


class Trainer:
    def __init__(self, model, decay=0.9):
        self.model = model
        self.decay = decay
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        self.average = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self):
        for k, v in self.model.state_dict().items():
            if v.dtype.is_floating_point:
                self.average[k].mul_(self.decay).add_(v, alpha=1 - self.decay)
            else:
                self.average[k].copy_(v)

    def step(self, x):
        loss = ((self.model(x) - 1) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.update()
        return loss.item()


model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
for p in model.parameters():
    nn.init.constant_(p, 0.2)
trainer = Trainer(model)
x = torch.linspace(-1, 1, 24).reshape(6, 4).sin()
found = [trainer.step(x) for _ in range(4)]
model.load_state_dict(trainer.average)
model.eval()
with torch.no_grad():
    found += model(x).flatten().tolist()
"""


@pytest.mark.parametrize(
    "update",
    [
        "ema[k].mul_(0.9).add_(v, alpha=0.1)",
        "ema[k].mul_(0.9)\n            ema[k].add_(v * 0.1)",
        "ema[k].lerp_(v, 0.1)",
        "ema[k].copy_(0.9 * v)",
        "ema[k].sub_(v).mul_(0.9).add_(v)",
    ],
)
def test_they_are_new_values(update: str) -> None:
    theirs, ours = rewritten.both(TEXT.replace("UPDATE", update))
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-5)


def test_in_an_object() -> None:
    theirs, ours = rewritten.both(CLASS)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("found = []", "found = []\nkept = ema['bias']"),  # seen under another name
        ("{k: v.clone()", "{k: v"),  # the weights themselves
        ("found = []", "found = []\nothers = list(ema.values())"),
    ],
)
def test_what_may_be_seen_elsewhere_is_refused(old: str, new: str) -> None:
    text = TEXT.replace("UPDATE", "ema[k].mul_(0.9).add_(v, alpha=0.1)").replace(old, new)
    assert {found.code for found in rewritten.conversion(text).report.diagnostics} <= {"MIG303", "MIG401"}
    assert rewritten.conversion(text).report.exit_code == 1

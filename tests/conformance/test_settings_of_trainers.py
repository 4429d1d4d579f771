"""Steps of trainers that read the settings of an object which the trainer holds, and losses weighted by the data."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

FLOAT32 = 1e-5  # ten steps of a few operations in float32 on both sides
SCRIPT = """from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


SETTINGS


class Trainer:
    def __init__(self, model, cfg, loader, weight):
        self.model, self.cfg, self.loader = model, cfg, loader
        self.criterion = nn.BCEWithLogitsLoss(pos_weight=weight)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr)
        self.losses = []

    def fit(self):
        for x, y in self.loader:
            out = self.model(x)
            loss = self.criterion(out, y) * self.cfg.scale
            if self.cfg.penalty == "l2":
                loss = loss + self.cfg.factor * out.pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
            self.optimizer.step()
            self.losses.append(loss.item())
        return self.losses


x = torch.linspace(-2, 3, 48).reshape(12, 4)
y = (x[:, :2] > 0.4).float()
weight = (len(y) - y.sum(0)) / y.sum(0)
model = nn.Linear(4, 2)
nn.init.constant_(model.weight, 0.1)
nn.init.zeros_(model.bias)
losses = Trainer(model, Settings(), DataLoader(TensorDataset(x, y), batch_size=4), weight).fit()
"""
DATACLASS = """@dataclass
class Settings:
    lr: float = 0.1
    scale: float = 0.5
    factor: float = 0.2
    clip: float = 0.1
    penalty: str = "l2\""""
CLASS = """class Settings:
    def __init__(self, penalty="PENALTY"):
        self.lr, self.scale, self.factor, self.clip = 0.1, 0.5, 0.2, 0.1
        self.penalty = penalty"""


@pytest.mark.parametrize("settings", [DATACLASS, CLASS.replace("PENALTY", "l2"), CLASS.replace("PENALTY", "none")])
def test_equal_losses(settings: str) -> None:
    source = SCRIPT.replace("SETTINGS", settings)
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)
    assert len(set(theirs["losses"])) == 3

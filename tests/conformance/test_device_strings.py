"""Devices that are strings in some branches, and losses that are computed on the CPU."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import both, clean

TEXT = """import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
DEVICE
def loss_of(x, y, model, device):
    x, y = x.to(device), y.to(device)
    return LOSS
def train(model, optimizer, device):
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(x, y, model, device)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
losses = []
x = torch.arange(12.0).reshape(4, 3) / 12
y = torch.tensor([0, 1, 1, 0])
model = nn.Linear(3, 2).to(device)
nn.init.constant_(model.weight, 0.1)
nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, device)
"""
DEVICES = [
    'if len(sys.argv) > 1000:\n    device = "cpu"\nelse:\n    device = torch.device("cpu")',
    'device = "cpu"\nif torch.cuda.is_available():\n    device = torch.device("cuda:0")\nprint(device)',
    'if torch.cuda.is_available():\n    device = torch.cuda.current_device()\nelse:\n    device = "cpu"',
]


@pytest.mark.parametrize("device", DEVICES)
def test_a_string_in_one_branch_and_a_device_in_the_other(device: str) -> None:
    text = TEXT.replace("DEVICE", device).replace("LOSS", "F.cross_entropy(model(x), y)")
    theirs, ours = both(text)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32, three steps
    assert "def loss_of(x, y, model, params):" in clean(text).text


@pytest.mark.parametrize("loss", ["F.cross_entropy(model(x), y).cpu()", "F.cross_entropy(model(x).cpu(), y)"])
def test_a_loss_on_the_cpu(loss: str) -> None:
    text = TEXT.replace("DEVICE", 'device = torch.device("cpu")').replace("LOSS", loss)
    theirs, ours = both(text)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)
    inline = text.replace("loss = loss_of(x, y, model, device)", "loss = F.cross_entropy(model(x), y).cpu()")
    theirs, ours = both(inline)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)


def test_the_current_device_is_no_context() -> None:
    within = "with torch.cuda.device(-1):\n    train(model, optimizer, device)\n"
    text = TEXT.replace("train(model, optimizer, device)\n", within)
    text = text.replace("DEVICE", 'device = torch.device("cpu")').replace("LOSS", "F.cross_entropy(model(x), y)")
    theirs, ours = both(text)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)
    assert "with" not in clean(text).text

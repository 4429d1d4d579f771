"""Weights of torch's for a model that makes constants of its settings, which a checkpoint holds as well."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conformance import rewritten

MODEL = """import torch
from torch import nn


class Places(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(size, width))
        index = torch.arange(size)[:, None] - torch.arange(size)[None]
        self.register_buffer("relative_index", index.abs())
        self.register_buffer("waves", torch.sin(torch.arange(size).float())[:, None])

    def forward(self, x):
        return x + self.table[self.relative_index].mean(0) + self.waves


class Net(nn.Module):
    def __init__(self, depth=2, size=3, width=4):
        super().__init__()
        blocks = nn.Sequential()
        for i in range(depth):
            blocks.add_module(f"the_block_{i}", Places(size, width))
        self.blocks = blocks
        self.more = nn.ModuleList([Places(size, width) for _ in range(depth)])
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x):
        x = self.norm(self.blocks(x))
        for block in self.more:
            x = block(x)
        return x


def net(weights=None, **kwargs):
    model = Net(**kwargs)
    if weights is not None:
        model.load_state_dict(weights.get_state_dict(progress=False))
    return model
"""


class Published:
    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.weights = weights

    def get_state_dict(self, progress: bool) -> dict[str, torch.Tensor]:
        return self.weights


def made(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "net.py").write_text(str(rewritten.clean(MODEL).text))
    return runpy.run_path(str(tmp_path / "net.py"))


def test_weights_come_where_the_constants_are_the_same(tmp_path: Path) -> None:
    ours = made(tmp_path)
    model = rewritten.executed(MODEL)["Net"](depth=3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_()
    x = torch.randn(2, 3, 4)
    params, stats, found = ours["net"](Published(model.state_dict()), depth=3)
    given = found.apply({"params": params, "batch_stats": stats}, x.numpy())
    np.testing.assert_allclose(given, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["blocks.the_block_1.relative_index", "more.0.waves"])
def test_other_constants_raise(tmp_path: Path, name: str) -> None:
    weights = rewritten.executed(MODEL)["Net"]().state_dict()
    weights[name] = weights[name] + 1
    with pytest.raises(ValueError, match=rf"{name} is a constant of the model"):
        made(tmp_path)["net"](Published(weights))

"""Modules that begin with a layer which changes its input in place: torch goes on with the changed tensor."""

import jax
import numpy as np
import pytest
import torch

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.residual = nn.Sequential(FIRST, nn.Linear(4, 4, bias=False))
        self.shortcut = nn.Identity()

    def forward(self, x):
        FORWARD


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4, bias=False)
        self.block = Block()

    def forward(self, x):
        x = self.stem(x)
        AFTER


net = Net()
print(net(torch.ones(2, 4)))
"""
SUM = "residual = self.residual(x)\n        return self.shortcut(x) + residual"


def filled(first: str, forward: str, after: str) -> str:
    return SCRIPT.replace("FIRST", first).replace("FORWARD", forward).replace("AFTER", after)


def test_a_residual_block_adds_what_its_first_layer_made_of_the_input() -> None:
    script = filled("nn.ReLU(inplace=True)", SUM, "return self.block(x)")
    conversion = convert(parse("net.py", script))
    assert not conversion.report.diagnostics
    theirs: dict[str, object] = {"__name__": __name__}
    ours: dict[str, object] = {"__name__": __name__}
    exec(script, theirs)
    exec(conversion.text, ours)
    net, flax = theirs["net"], ours["net"]
    assert isinstance(net, torch.nn.Module)
    kernels = {name: value.detach().numpy().T for name, value in net.named_parameters()}
    block = {"residual": {"layers_1": {"kernel": kernels["block.residual.1.weight"]}}}
    params = {"stem": {"kernel": kernels["stem.weight"]}, "block": block}
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    made = jax.jit(flax.apply)({"params": params}, x)  # pyright: ignore[reportAttributeAccessIssue]
    expected = net(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(expected - (x @ kernels["stem.weight"])).max() > 0.1


@pytest.mark.parametrize(
    ("first", "forward", "after", "why"),
    [
        ("nn.ReLU(inplace=True)", "return self.residual(x)", "return self.block(x) + x", "by a caller"),
        ("nn.ReLU(inplace=True)", "return x * 2 + self.residual(x)", "return self.block(x)", "read again"),
        ("nn.LeakyReLU(0.2, inplace=True)", SUM, "return self.block(x)", "read again"),
    ],
)
def test_what_is_read_again_is_refused(first: str, forward: str, after: str, why: str) -> None:
    conversion = convert(parse("net.py", filled(first, forward, after)))
    assert [one.code for one in conversion.report.diagnostics if why in one.message] == ["MIG303"]

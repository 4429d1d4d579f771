"""Lists that a loss fills and makes a tensor of: `torch.tensor(steps)` copies values alone, without their gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn

model = nn.Linear(4, 2, bias=False)
torch.nn.init.constant_(model.weight, 0.3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.arange(12.0).reshape(3, 4) / 10
shown = []
for step in range(3):
    out = model(x)
    acc, steps = 0.0, []
    FILL
    weights = torch.tensor(steps)
    loss = (weights[:, None] * out).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown.append(loss.item())
"""
KEPT = """for k in range(3):
        acc = 0.5 * acc + out[k, 0]
        steps.append(acc)
    steps.reverse()"""
TAKEN = """for k in range(3):
        steps.append(out[k, 0].item())"""
AT_ONCE = """steps.append(out[0, 0].item())
    steps += [1.0, 2.0]"""


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_a_loop_fills_it_where_the_loss_is_computed() -> None:
    source = SCRIPT.replace("FILL", KEPT)
    theirs: dict[str, Any] = {}
    exec(source, theirs)
    ours = rewritten.executed(rewritten.clean(source).text)["shown"]
    np.testing.assert_allclose(ours, theirs["shown"], rtol=1e-5)


@pytest.mark.parametrize("fill", [TAKEN, AT_ONCE])
def test_values_taken_out_of_jax_are_refused(fill: str) -> None:
    found = rewritten.conversion(SCRIPT.replace("FILL", fill)).report.diagnostics
    assert "MIG401" in {one.code for one in found}


LOOP = """import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
for p in model.parameters():
    nn.init.constant_(p, 0.3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 0, 1])
shown = []
for epoch in range(3):
    losses = []
    for scale in (1.0, 2.0):
        FILL
    loss = sum(losses)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown += [loss.item(), SHOWN]
shown.append(model[1].running_mean.sum().item())
"""
FILLED = {
    "appended": ("losses.append(nn.functional.cross_entropy(model(scale * x), y))", "len(losses)"),
    "in two lines": ("out = model(scale * x)\n        losses.append(nn.functional.cross_entropy(out, y))", "0"),
    "put first": ("losses.insert(0, nn.functional.cross_entropy(model(scale * x), y))", "losses[0].item()"),
    "a number beside": ("losses.append(scale * model(scale * x).square().mean())", "[v.item() for v in losses][1]"),
}


@pytest.mark.parametrize(("fill", "asked"), FILLED.values(), ids=FILLED)
def test_a_list_of_this_turn_is_filled_inside_the_step(fill: str, asked: str) -> None:
    """The statistics of the model change once for each of its passes."""
    text = LOOP.replace("FILL", fill).replace("SHOWN", asked)
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-4, atol=1e-6)  # three steps of four layers
    made = rewritten.clean(text).text
    assert made.index("def loss_fn") < made.index("losses = []") < made.index("value_and_grad")

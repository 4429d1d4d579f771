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

"""Steps of optimizers where `zero_grad()` has left None: torch's pass over the weights, whatever their momentum."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate import manifest as manifests
from migrate.files.source import parse
from migrate.pipeline import convert
from parity.compare import compare_script

pytestmark = pytest.mark.usefixtures("runs_are_forked")

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


def train(model, optimizer):
    optimizer.zero_grad()
    for i in range(4):
        loss = F.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 3))
        loss.backward()
        if i % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    BODY


model = nn.Sequential(nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
optimizer.zero_grad()
optimizer.step()
for epoch in range(2):
    train(model, optimizer)
"""
GUARD = "    if grads is not None:\n        params, opt_state = optimizer_update"


@pytest.mark.parametrize(
    ("body", "guarded"),
    [
        ("optimizer.step()", True),  # nothing is left of four batches in pairs
        ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()", True),
        ("optimizer.zero_grad()\n    optimizer.step()", False),
        ("pass", False),
    ],
)
def test_steps_without_gradients(body: str, guarded: bool, tmp_path: Path) -> None:
    source = SCRIPT.replace("BODY", body)
    made = convert(parse("x.py", source))
    assert not made.report.diagnostics, made.report.as_text()
    assert (GUARD in made.text) == guarded
    before, after, weights = (tmp_path / name for name in ("x.py", "x_jax.py", "weights.json"))
    before.write_text(source)
    after.write_text(made.text)
    weights.write_text(manifests.dumps(made.manifest))
    result = compare_script(before, after, weights, steps=8)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert len(result.steps) == 8


@pytest.mark.parametrize(
    "body",
    [
        "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n    print(norm)",
        "for p in model.parameters():\n        print(p.grad.norm())\n    optimizer.step()",
    ],
)
def test_what_reads_them_is_refused(body: str) -> None:
    found = convert(parse("x.py", SCRIPT.replace("BODY", body))).report.diagnostics
    assert {one.code for one in found} >= {"MIG401"}


UNREAD = """\
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.spare = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.fc(x)


model = nn.Sequential(Block(), Block())
print(sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
for step in range(3):
    loss = model(torch.randn(8, 4)).square().mean() + PENALTY
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("penalty", "frozen"), [("0.0", True), ("0.1 * sum(p.norm() for p in model.parameters())", False)]
)
def test_a_parameter_that_nothing_reads_does_not_decay(penalty: str, frozen: bool, tmp_path: Path) -> None:
    """Its gradient is None in torch, zero in JAX."""
    source = UNREAD.replace("PENALTY", penalty)
    made = convert(parse("x.py", source))
    assert not made.report.diagnostics, made.report.as_text()
    assert ("frozen" in made.text) == frozen
    before, after, weights = (tmp_path / name for name in ("x.py", "x_jax.py", "weights.json"))
    before.write_text(source)
    after.write_text(made.text)
    weights.write_text(manifests.dumps(made.manifest))
    result = compare_script(before, after, weights, steps=3)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert len(result.steps) == 3

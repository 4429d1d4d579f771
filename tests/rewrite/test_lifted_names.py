"""Attributes that a step takes as arguments: several objects have some of one name, and so may the loss itself."""

from __future__ import annotations

import math

import pytest

from tests.conformance import rewritten

SCRIPT = """from types import SimpleNamespace

import torch

made = SimpleNamespace


def batch(seed):
    return made(obs=torch.full((2, 4), float(seed)), scale=float(seed))


w = torch.full((4, 1), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.01)
obs = torch.ones(2, 4)
shown = []
for step in range(2):
    a, b = batch(step), batch(step + 2)
    BODY
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown.append(loss.item())
"""


@pytest.mark.parametrize(
    "body",
    [
        "loss = (((a.obs @ w) - (b.obs @ w)) ** 2).mean()",
        "loss = ((a.obs @ w) * a.scale - (b.obs @ w) * b.scale).mean() + (obs @ w).mean()",
        "pred = (a.obs @ w)\n    scale = pred * 2\n    loss = (scale ** 2).mean() + b.scale * (b.obs @ w).mean()",
    ],
)
def test_each_attribute_is_its_own(body: str) -> None:
    source = SCRIPT.replace("BODY", body)
    expected = rewritten.executed(source)["shown"]
    found = rewritten.executed(rewritten.clean(source).text)["shown"]
    assert all(math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6) for one, other in zip(found, expected, strict=True))

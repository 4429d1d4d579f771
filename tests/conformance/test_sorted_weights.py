"""Weights that a loop sorts into lists, for groups of an optimizer: the same ones decay."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from weight_port import port_state_dict

SCRIPT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.n = nn.LayerNorm(8)
        self.scale = nn.Parameter(torch.ones(1))
        self.b = nn.Linear(8, 2)

    def forward(self, x):
        return self.b(self.n(self.a(x))) * self.scale


model = Net()
FREEZE
LISTS
for name, p in model.named_parameters():
    BODY
optimizer = torch.optim.SGD(
    [{"params": decay, "weight_decay": 0.5}, {"params": others, "weight_decay": 0.0}], lr=0.1
)
x = torch.ones(3, 4)
y = model(x)
"""
BY_RANK = """if not p.requires_grad:
        continue
    if p.ndim <= 1 or name.endswith(".bias"):
        others.append(p)
    else:
        decay.append(p)"""
BY_NAME = """if "n." in name or name == "scale":
        others.append(p)
        continue
    decay.append(p)"""
FROZEN = "for p in model.a.parameters():\n    p.requires_grad = False"


@pytest.mark.parametrize("lists", ["decay, others = [], []", "decay = []\nothers = []"])
@pytest.mark.parametrize(("body", "freeze"), [(BY_RANK, ""), (BY_NAME, ""), (BY_RANK, FROZEN)])
def test_the_same_weights_decay(lists: str, body: str, freeze: str) -> None:
    source = SCRIPT.replace("LISTS", lists).replace("BODY", body).replace("FREEZE", freeze)
    converted = rewritten.clean(source)
    assert "[]" not in converted.text
    theirs, ours = rewritten.executed(source), rewritten.executed(converted.text)
    model, optimizer = theirs["model"], theirs["optimizer"]
    for p in model.parameters():
        torch.nn.init.ones_(p)
        p.grad = torch.zeros_like(p) if p.requires_grad else None
    optimizer.step()
    expected = leaves(port_state_dict(numpy_state(model), rewritten.model_weights(converted, "Net")))
    params = jax.tree.map(jnp.ones_like, ours["params"])
    updates, _ = ours["optimizer"].update(jax.tree.map(jnp.zeros_like, params), ours["optimizer"].init(params), params)
    found = leaves({"params": jax.tree.map(jnp.add, params, updates)})
    assert any(np.any(leaf != 1) for leaf in expected.values())
    for path, leaf in expected.items():
        np.testing.assert_allclose(found[path], leaf, rtol=1e-6, err_msg=path)


def test_a_list_of_weights_and_names_is_refused() -> None:
    mixed = "decay.append(p)\n    others.append(name)"
    found = rewritten.conversion(SCRIPT.replace("LISTS", "decay, others = [], []").replace("BODY", mixed))
    assert found.report.exit_code == 1

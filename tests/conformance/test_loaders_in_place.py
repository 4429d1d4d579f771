"""Loaders without a name, of which a model made before them takes an example: a name is given to them, ahead of what
goes through them. The losses would show rows drawn once more, or in another order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

losses = []
net = nn.Linear(3, 1)
nn.init.constant_(net.weight, 0.3)
nn.init.constant_(net.bias, -0.1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(5)  # below the model, whose weights torch draws
data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
"""
STEP = """loss = F.mse_loss(net(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
losses.append(loss.item())
"""


def indented(text: str, depth: int) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for line in text.splitlines())


FUNCTION = f"\n\ndef train(loader, times=1):\n    for x, y in loader:\n{indented(STEP, 2)}\n\n"
PAIRS = "[(torch.full((3,), 0.5), torch.tensor([0.7])), (torch.full((3,), 0.2), torch.tensor([0.1]))] * 4"
FORMS = {
    "a loop": (f"{HEAD}for x, y in DataLoader(data, batch_size=4, shuffle=True):\n{indented(STEP, 1)}", "loader"),
    "a loop in a loop": (
        f"{HEAD}for epoch in range(2):\n    for x, y in DataLoader(data, 4, shuffle=True):\n{indented(STEP, 2)}",
        "loader",
    ),
    "a size that the outer loop sets": (
        f"{HEAD}for size in (2, 4):\n    for x, y in DataLoader(data, batch_size=size):\n{indented(STEP, 2)}",
        "",
    ),
    "counted": (
        f"{HEAD}for step, (x, y) in enumerate(DataLoader(data, batch_size=4, shuffle=True)):\n{indented(STEP, 1)}",
        "loader",
    ),
    "an argument": (f"{HEAD}{FUNCTION}train(DataLoader(data, 4, shuffle=True))\n", "loader"),
    "an argument with rows of its own": (
        f"{HEAD}{FUNCTION}train(DataLoader(TensorDataset(torch.randn(4, 3), torch.randn(4, 1)), 2, shuffle=True))\n",
        "loader",
    ),
    "pairs": (f"{HEAD}{FUNCTION}train(DataLoader({PAIRS}, batch_size=2), times=2)\n", "loader"),
    "a name that is taken": (
        f"{HEAD}{FUNCTION}loader = None\ntrain(DataLoader(data, 4, shuffle=True))\n",
        "loader_2",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_in_torchs_order(form: str, float64: None) -> None:
    source, name = FORMS[form]
    theirs, ours = rewritten.both(source)
    assert len(set(theirs["losses"])) >= 2
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)  # float32
    assert (f"\n{name} = DataLoader(" in rewritten.clean(source).text) == bool(name)

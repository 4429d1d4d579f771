"""Loops over named parameters that ask of their names: what torch calls them decides, and is shown."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh())
        self.head = nn.Linear(3, 2)
        nn.init.constant_(self.features[0].weight, 0.3)
        nn.init.constant_(self.features[0].bias, 0.1)
        nn.init.constant_(self.head.weight, 0.3)
        nn.init.constant_(self.head.bias, 0.1)

    def forward(self, x):
        return self.head(self.features(x))


x = torch.sin(torch.arange(32.0)).reshape(8, 4)
y = x[:, :2] * 2
losses, shown = [], []


def show(*told):
    shown.append(told)


model = Net()
LOOP
optimizer = torch.optim.SGD(TRAINED, lr=0.1, momentum=0.9, weight_decay=0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
LOOPS = {
    "frozen, and the others shown": """for name, p in model.named_parameters():
    # the norm and the head are trained
    if ("features.1" not in name) and ("head" not in name):
        p.requires_grad_(False)
    else:
        show(f"training {name}")
""",
    "shown before it is frozen": """for name, p in model.named_parameters():
    if name.startswith("head"):
        show(name, tuple(p.shape))
    else:
        show("frozen: " + name)
        p.requires_grad = False
""",
    "whole, of several branches": """for name, p in model.named_parameters():
    if name.split(".")[0] == "head":
        show(name, p.numel())
    elif name == "features.0.weight":
        p.requires_grad_(False)
        show(name)
    else:
        p.requires_grad_(False)
""",
    "only shown": """for name, p in model.named_parameters():
    if "weight" in name and p.dim() == 2:
        show(name, p.shape[0], round(p.sum().item(), 4))
""",
    "counted": """frozen = trained = 0
for name, p in model.named_parameters():
    if "bias" in name:
        trained += p.numel()
    else:
        frozen += p.numel()
show(frozen, trained)
""",
}
ALL, SOME = "model.parameters()", "[p for p in model.parameters() if p.requires_grad]"
NAMED = "kept"


@pytest.mark.parametrize("trained", [ALL, SOME, NAMED])
@pytest.mark.parametrize("how", LOOPS)
def test_the_same_names_and_losses(how: str, trained: str) -> None:
    loop = LOOPS[how] + (f"kept = {SOME}\n" if trained == NAMED else "")
    theirs, ours = rewritten.both(HEAD.replace("LOOP", loop).replace("TRAINED", trained))
    assert ours["shown"] == theirs["shown"] != []
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32


def test_told_as_the_script_runs() -> None:
    """The output keeps what is frozen; the branch shows the same."""
    loop = "freezing = len(losses) == 0\nif freezing:\n" + "".join(
        f"    {line}\n" for line in LOOPS["frozen, and the others shown"].splitlines()
    )
    theirs, ours = rewritten.both(HEAD.replace("LOOP", loop + f"kept = {SOME}\n").replace("TRAINED", NAMED))
    assert ours["shown"] == theirs["shown"] and len(ours["shown"]) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32


@pytest.mark.parametrize("change", ["p += 1.0", "p.mul_(2.0)", "nn.init.ones_(p)", "p[0] = 1.0"])
def test_parameters_that_change_are_no_arrays(change: str) -> None:
    body = f"    show(name.split('.')[0])\n    {change}\n".replace("    ", "        ")
    loop = f"with torch.no_grad():\n    for name, p in model.named_parameters():\n{body}"
    made = rewritten.conversion(HEAD.replace("LOOP", loop).replace("TRAINED", ALL))
    assert made.report.exit_code == 1

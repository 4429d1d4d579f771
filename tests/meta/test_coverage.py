"""Each of the torch names that scripts use most is served, in exactly one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from migrate.layers.table import TABLE
from migrate.optimizers import COMPOSED, INITIALIZERS, LOSSES, OPTIMIZERS, SCHEDULES
from migrate.rules.catalogue import RULES
from tests.conformance import rewritten
from tests.meta.served_by_passes import BY_A_PASS

# By the number of files of a sample of public code that use a name, the most used first.
FREQUENT = Path(__file__).with_name("frequent_names.txt").read_text().split("\n")[:-1]

SCRIPT = """import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset, TensorDataset
import torchvision
from torchvision import transforms


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        INIT

    def forward(self, x):
        x = self.fc(x)
        FORWARD
        return x


x = torch.randn(8, 3)
y = torch.randn(8, 2)
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
SCRIPT
for step in range(10):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    LOOP
    optimizer.step()
    scheduler.step()
    print(loss.item())
"""

KEPT = ("torch.utils", "torch.manual_seed", "torch.randn", "torch.zeros")  # for data loading
REGISTRIES = {
    "rules": {*RULES, *(name.replace(".Distribution.", ".*.") for name in RULES)},
    "layers": set(TABLE),
    "optimizers": {*OPTIMIZERS, *SCHEDULES, *COMPOSED},
    "losses": set(LOSSES),
    "initializers": {f"torch.nn.init.{name}" for name in INITIALIZERS},
    "passes": set(BY_A_PASS),
}


def source(place: str, code: str) -> str:
    """The script with one line put in."""
    text = SCRIPT
    for each, indent in (("INIT", 8), ("FORWARD", 8), ("SCRIPT", 0), ("LOOP", 4)):
        text = text.replace(f"{' ' * indent}{each}\n", f"{' ' * indent}{code}\n" if each == place else "")
    return text


def test_the_list_is_whole() -> None:
    assert len(FREQUENT) == len(set(FREQUENT)) == 250


@pytest.mark.parametrize("name", FREQUENT)
def test_a_frequent_name_is_in_exactly_one_place(name: str) -> None:
    places = [place for place, names in REGISTRIES.items() if name in names]
    assert len(places) == 1, f"{name} is in {places}"


def test_nothing_else_is_listed() -> None:
    assert set(BY_A_PASS) <= set(FREQUENT)


@pytest.mark.parametrize("name", BY_A_PASS)
def test_a_pass_serves_it(name: str) -> None:
    """The line is converted: no finding, no place left undone, no torch but for data, its seed and what is shown."""
    made = rewritten.clean(source(*BY_A_PASS[name]))
    assert "NotImplementedError" not in made.text
    left = re.findall(r"\btorch\.[\w.]+", re.sub(r"#.*", "", made.text))
    kept = ("torch.utils", "torch.manual_seed", "torch.randn", "torch.zeros", "torch.from_numpy")
    assert {n for n in left if not n.startswith(kept)} == set()

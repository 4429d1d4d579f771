"""Static methods that make modules, and classes of `torch.jit.ScriptModule`: both frameworks."""

from __future__ import annotations

import numpy as np

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, trained

TEXT = """import torch
import torch.nn as nn


class Unit(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.fc = nn.Linear(a, b)
        self.norm = nn.BatchNorm1d(b)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = self._make(3, 5, 2, Unit)
        self.head = nn.Linear(5, 2)

    @staticmethod
    def _make(a, b, count, block):
        layers = nn.Sequential()
        for i in range(count):
            layers.add_module("unit_{}".format(i), block(a, b))
            a = b
        return layers

    def forward(self, x):
        return self.head(self.body(x))


model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-2, 3, 24).reshape(8, 3).sin()
losses = []
for _ in range(6):
    loss = ((model(x) - 1) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    losses.append(model(x).sum().item())
"""


def test_a_static_method_that_makes_modules(float64: None) -> None:
    """They are told the mode of the one that they are made in, so that the method is given that."""
    theirs, ours = trained(TEXT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert len(set(theirs["losses"])) == 7


def test_a_module_of_torchs_older_compiler() -> None:
    """Torch wants the source of such a class in a file; the output is that of the plain one."""
    scripted = TEXT.replace("class Unit(nn.Module)", "class Unit(torch.jit.ScriptModule)")
    scripted = scripted.replace("    def forward", "    @torch.jit.script_method\n    def forward", 1)
    assert convert(parse("x.py", scripted)).text == convert(parse("x.py", TEXT)).text


def test_the_name_of_a_class_is_no_number() -> None:
    """The manifest would have digits in its place, and describe no weight of the model."""
    made = convert(parse("x.py", TEXT.replace('"unit_{}".format(i)', '"{}_{}".format(block.__name__, i)')))
    assert [found.code for found in made.report.diagnostics] == ["MIG301"], made.report.as_text()

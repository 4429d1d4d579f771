"""Models that may be loaded before their data is there: what loads them stands below what makes the loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

first_epoch = 0


def weights_init(m):
    if m.__class__.__name__.find("Conv") != -1:
        nn.init.constant_(m.weight, 0.1)


class Pair(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down = nn.Conv2d(2 * channels, 4, 4, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, channels, 4, stride=2, padding=1)

    def forward(self, x, y):
        return self.up(torch.relu(self.down(torch.cat((x, y), 1)))) + x


one, two = Pair(3), Pair(3)
if first_epoch != 0:
    one.load_state_dict(torch.load("one_%d.pth" % first_epoch))
    two.load_state_dict(torch.load("two_%d.pth" % first_epoch))
else:
    one.apply(weights_init)
    two.apply(weights_init)
BETWEEN
optimizer = torch.optim.Adam(list(one.parameters()) + list(two.parameters()), lr=0.01)
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.Tensor
loader = DataLoader(TensorDataset(torch.arange(768.0).reshape(4, 3, 8, 8) / 768), batch_size=2)
shown = []
for (batch,) in loader:
    x = batch.type(Tensor)
    loss = (two(one(x, x), x) - 1).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown.append(loss.item())
torch.save(one.state_dict(), "one_1.pth")
torch.save(two.state_dict(), "two_1.pth")
"""


def test_the_loader_is_made_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = rewritten.clean(SCRIPT.replace("BETWEEN", "rate = 0.01")).text
    assert made.index("loader = DataLoader(") < made.index("one_params = ") < made.index("if first_epoch != 0:")
    first = rewritten.executed(made)
    np.testing.assert_allclose(first["one_params"]["down"]["kernel"][0, 0, 0], 0.1, atol=0.03)
    again = rewritten.executed(made.replace("first_epoch = 0", "first_epoch = 1"))
    theirs = [again["one_params"]["down"]["kernel"], first["one_params"]["down"]["kernel"]]
    assert 0.015 < np.abs(theirs[0] - theirs[1]).max() < 0.05  # two more steps of Adam than the weights that it loads
    assert again["shown"][0] < first["shown"][0]


@pytest.mark.parametrize(
    "between",
    [
        "import copy\nkept = copy.deepcopy(one)",
        "print(sum(p.sum().item() for p in one.parameters()))",
        "def report():\n    print(sum(p.sum().item() for p in one.parameters()))\n\n\nreport()",
        "first_epoch = 3",
    ],
)
def test_nothing_that_has_to_do_with_the_weights_is_passed(between: str) -> None:
    found = rewritten.conversion(SCRIPT.replace("BETWEEN", between)).report.as_text()
    assert "one is used before an example is at hand" in found

"""Forward passes outside of training steps: one jitted function, whether they draw, keep statistics, or round."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import clean, executed

SCRIPT = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 8)
        self.bn = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(RATE)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.drop(self.bn(self.fc(x))))


model = Net()
model.MODE()
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = model(torch.ones(6, 4))
told = str(y.dtype).removeprefix("torch.")
"""


@pytest.mark.parametrize(("mode", "name"), [("train", "forward_pass"), ("eval", "eval_step")])
@pytest.mark.parametrize("rate", ["0.0", "0.5"])
def test_the_precision_in_force_is_that_of_the_pass(mode: str, name: str, rate: str) -> None:
    text = SCRIPT.replace("MODE", mode).replace("RATE", rate)
    made = clean(text).text
    assert f"def {name}(model, params, batch_stats" in made
    assert executed(made)["told"] == executed(text)["told"] == "bfloat16"

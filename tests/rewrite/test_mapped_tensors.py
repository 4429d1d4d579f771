"""Columns of a batch that are made tensors by `map(torch.LongTensor, zip(*batch))`, in both frameworks."""

from pathlib import Path

import pytest

from migrate import manifest as manifests
from migrate.files.source import parse
from migrate.pipeline import convert
from parity.compare import compare_script

SCRIPT = """
import random

import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(0)
random.seed(0)
words = [[[random.randrange(10), random.randrange(10)], [3, 4], random.random() > 0.5] for _ in range(8)]
memory = [(np.random.RandomState(i).rand(2).astype(np.float32), [i], float(i) / 8) for i in range(8)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 3)
        self.fc = nn.Linear(8, 2)

    def forward(self, a, s):
        return self.fc(torch.cat([self.embed(a).flatten(1), s], 1))


def sample():
    s, i, r = zip(*memory)
    x, r = map(torch.FloatTensor, (np.array(s), r))
    return x, torch.LongTensor(i), r


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
a, b, c = map(torch.LongTensor, zip(*words))
scales = list(map(torch.tensor, [[1, 2], [3.5, 4]]))
for step in range(10):
    s, i, r = sample()
    logits = net(a, s)
    loss = nn.functional.cross_entropy(logits, c) + (r * logits[:, 0] * i.squeeze(1)).mean()
    loss = loss * scales[1].sum() / scales[0][0]
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item(), b[0, 0].item())
"""


@pytest.mark.usefixtures("runs_are_forked")
def test_losses_are_torchs(tmp_path: Path) -> None:
    made = convert(parse("before.py", SCRIPT))
    assert made.report.diagnostics == ()
    assert "a, b, c = (jnp.asarray(x, jnp.int32) for x in zip(*words))\n" in made.text
    assert "scales = [jnp.array(x) for x in [[1, 2], [3.5, 4]]]\n" in made.text
    before, after, weights = tmp_path / "before.py", tmp_path / "after.py", tmp_path / "weights.json"
    before.write_text(SCRIPT, encoding="utf-8")
    after.write_text(made.text, encoding="utf-8")
    manifests.write(made.manifest, weights)
    result = compare_script(before, after, weights, steps=5, perturbed_runs=0)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert len(result.steps) == 5


def test_a_map_of_the_users_is_theirs() -> None:
    text = "import torch\n\n\ndef map(function, values):\n    return values\n\n\nx = map(torch.LongTensor, [1])\n"
    assert "for x in" not in convert(parse("x.py", text)).text

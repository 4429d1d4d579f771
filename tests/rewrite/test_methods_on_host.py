"""Methods that jit cannot trace run on the host, unless something that is traced runs them."""

import re
from pathlib import Path

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from parity.compare import compare_script

GOLDEN = Path(__file__).parents[1] / "golden" / "methods_that_decide"

HEAD = """
import random
import torch
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)
    def act(self, x):
        if random.random() < 0.5:
            return random.randint(0, 1)
        return self.forward(x).argmax().item()
"""
TRAINED = """
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(10):
    loss = net(torch.ones(3, 4)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def converted(text: str) -> tuple[str, list[str]]:
    made = convert(parse("x.py", text))
    return made.text, [found.code for found in made.report.diagnostics]


@pytest.mark.usefixtures("runs_are_forked")
def test_what_they_choose_and_find_is_torchs(tmp_path: Path) -> None:
    """Actions make the data of the losses; what is printed is not part of a step."""
    prelude, runs = tmp_path / "prelude.py", tmp_path / "runs"
    prelude.write_text('import sys\n\nsys.stdout = open("printed.txt", "w", buffering=1)\n', encoding="utf-8")
    files = GOLDEN / "before.py", GOLDEN / "after.py", GOLDEN / "weights.json"
    result = compare_script(*files, steps=1000, perturbed_runs=1, prelude=prelude, workdir=runs)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    theirs, ours = (
        [
            float(one)
            for one in re.findall(r"\d+(?:\.\d+)?", (runs / f"{side}-float64/run/printed.txt").read_text("utf-8"))
        ]
        for side in ("torch", "jax")
    )
    assert len(theirs) == 20
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_what_a_model_outside_does() -> None:
    text, codes = converted(HEAD + TRAINED + "    print(net.act(torch.ones(4)))\n")
    assert codes == []
    assert "    def act(self, params, x):\n        if random.random() < 0.5:\n" in text
    assert "print(net.act(params, jnp.ones(4)))" in text


OUTER = """
class Sub(Net):
    def forward(self, x):
        return 2 * self.fc(x)

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Sub()
    def forward(self, x):
        return self.net(x)
    def explore(self, x):
        return self.net.act(x)
"""


def test_a_part_of_a_model_has_no_weights_for_it() -> None:
    shown = "    print(net.act(torch.ones(4)), Outer().explore(torch.ones(4)))\n"
    text, codes = converted(HEAD + OUTER + TRAINED.replace("Net()", "Sub()") + shown)
    assert "MIG301" in codes
    assert "MIG301: self.net.act(x): a part of a Flax module has no weights of its own" in text


LOSS = """
    def loss(self, x):
        if random.random() < 0.5:
            return self.forward(x).mean()
        y = self.forward(x).sum()
        return random.uniform(0, 1) * y
"""


def test_a_loss_is_traced() -> None:
    text, codes = converted(HEAD + LOSS + TRAINED.replace("net(torch.ones(3, 4)).mean()", "net.loss(torch.ones(3, 4))"))
    assert "MIG307" in codes
    assert "MIG307: Net.loss: " in text


OWN = """
    def train(self, x):
        return self(x).mean()
    def twice(self, x):
        return 2 * self.train(x)
"""


def test_a_method_called_train_is_the_users() -> None:
    text, _ = converted(HEAD + OWN + TRAINED.replace("net(torch.ones(3, 4)).mean()", "net.twice(torch.ones(3, 4))"))
    assert "    def twice(self, x):\n" in text


MODES = """
    def evaluate(self, x):
        self.eval()
        found = self(x).max()
        self.train()
        return found
"""


def test_a_method_that_sets_the_mode_is_given_the_weights() -> None:
    text, codes = converted(HEAD + MODES + TRAINED + "    print(net.evaluate(torch.ones(3, 4)))\n")
    assert codes == []
    assert "print(net.evaluate(params, jnp.ones((3, 4))))" in text

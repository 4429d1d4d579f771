"""Batches of an object of the script's own: named tuples of tensors; examples that do not stand on what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files.project import read_project
from migrate.files.source import parse
from migrate.pipeline import convert, convert_project
from tests.conformance import rewritten

GOLDEN = Path(__file__).parents[1] / "golden" / "replay_buffer" / "before.py"


def test_no_example_asks_an_empty_buffer() -> None:
    text = convert(parse("x.py", GOLDEN.read_text(encoding="utf-8"))).text
    assert "sample(16)" not in text.partition("rb = ")[0]


def test_what_a_method_of_an_inheriting_class_is_said_to_return(tmp_path: Path) -> None:
    """As in cleanrl: the class of the buffer inherits, so that its methods are not followed."""
    text = GOLDEN.read_text(encoding="utf-8")
    head, _, rest = text.partition("class Samples")
    buffer, _, script = rest.partition("class QNetwork")
    imports = "from abc import ABC\nfrom typing import NamedTuple\n\nimport numpy as np\nimport torch\n\n\n"
    buffer, _, converting = buffer.partition("    def to_torch")
    base = f"class Base(ABC):\n    def to_torch{converting}\n\nclass ReplayBuffer(Base):"
    buffer = buffer.replace("class ReplayBuffer:", base)
    buffer = buffer.replace("def sample(self, batch_size):", "def sample(self, batch_size) -> Samples:")
    (tmp_path / "buffers.py").write_text(f"{imports}class Samples{buffer}", encoding="utf-8")
    train = f"{head}from buffers import ReplayBuffer\n\n\nclass QNetwork{script}"
    (tmp_path / "train.py").write_text(train, encoding="utf-8")
    made = convert_project(read_project([tmp_path / "train.py"]))
    assert made.report.exit_code == 0, made.report.as_text()
    output = next(one.data.decode() for one in made.outputs if one.member.place == "train.py")
    assert "data.rewards," in output and "sample(16)" not in output.partition("rb = ")[0]


def test_a_model_that_takes_nothing_but_such_batches_is_refused() -> None:
    text = GOLDEN.read_text(encoding="utf-8").replace("q_network(torch.Tensor(obs).unsqueeze(0))", "torch.zeros(1, 2)")
    convolved = "nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 1), nn.Flatten(), nn.Linear(obs_dim, 32)"
    text = text.replace("nn.Linear(obs_dim, 32)", convolved)
    found = convert(parse("x.py", text)).report.diagnostics
    assert any("holds nothing yet" in one.message for one in found) and {one.code for one in found} == {"MIG402"}


AGENT = """import torch
import torch.nn as nn


class Agent:
    def __init__(self):
        self.net = FIRST
        self.memory = MADE
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self):
        state = torch.tensor([state for state in self.memory], dtype=torch.float)
        loss = self.net(state).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


agent = Agent()
for step in range(4):
    FILLED
losses = [agent.update() for step in range(3)]
"""
MEMORIES = {
    "[]": "agent.memory.append([1.0 * step, 2.0, 3.0])",
    "list()": "agent.memory.append([1.0 * step, 2.0, 3.0])",
    "[None] * 4": "agent.memory[step] = [1.0 * step, 2.0, 3.0]",
}


@pytest.mark.parametrize("made", MEMORIES)
def test_no_example_is_taken_from_a_list_that_is_empty_yet(made: str) -> None:
    text = AGENT.replace("FIRST", "nn.Linear(3, 2)").replace("MADE", made).replace("FILLED", MEMORIES[made])
    converted = rewritten.clean(text)
    assert "jnp.zeros((1, 3))" in converted.text
    assert len(rewritten.executed(converted.text)["losses"]) == 3


def test_where_no_layer_tells_what_it_takes_that_is_refused() -> None:
    text = AGENT.replace("FIRST", "nn.LazyLinear(2)").replace("MADE", "[]").replace("FILLED", MEMORIES["[]"])
    assert "MIG402" in {found.code for found in rewritten.conversion(text).report.diagnostics}

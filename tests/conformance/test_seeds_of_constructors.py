"""Models that set a seed as they are made, the one that they are given: it is set where they are made. Two of one seed
start alike, and two of different seeds do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

MODEL = """import random

import torch
import torch.nn as nn


class QNetwork(nn.Module):
    def __init__(self, size, seed=0):
        super().__init__()
        SEEDED
        self.fc = nn.Linear(size, 2)

    def forward(self, x):
        return self.fc(x)


class Agent:
    def __init__(self, size, seed):
        self.seed = random.seed(seed)
        self.local = QNetwork(MADE)
        self.target = QNetwork(size, OTHER)
        self.optimizer = torch.optim.SGD(self.local.parameters(), lr=0.1)

    def learn(self, x):
        loss = (self.local(x) - self.target(x).detach()).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


agent = Agent(3, 7)
losses = [agent.learn(torch.ones(4, 3)), agent.learn(torch.ones(4, 3))]
"""
SEEDED = {
    "kept": "self.seed = torch.manual_seed(seed)",
    "set": "torch.manual_seed(seed)",
}
MADE = {"by position": "size, seed", "by keyword": "seed=seed, size=size"}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("seeded", SEEDED)
def test_models_of_one_seed_start_alike(seeded: str, made: str) -> None:
    source = MODEL.replace("SEEDED", SEEDED[seeded]).replace("MADE", MADE[made])
    alike, apart = (rewritten.both(source.replace("OTHER", other)) for other in ("seed", "8"))
    for sides in alike:
        np.testing.assert_array_equal(sides["losses"], [0.0, 0.0])
    for sides in apart:
        assert sides["losses"][0] > sides["losses"][1] > 0
    assert "key = jax.random.key(seed)" in rewritten.clean(source.replace("OTHER", "seed")).text


def test_the_default_counts_where_nothing_is_given() -> None:
    source = MODEL.replace("SEEDED", SEEDED["kept"]).replace("MADE", "size").replace("size, OTHER", "size, 0")
    for sides in rewritten.both(source):
        np.testing.assert_array_equal(sides["losses"], [0.0, 0.0])


@pytest.mark.parametrize(
    "read", ["agent.local.seed.initial_seed()", "torch.rand(2, generator=agent.local.seed)", "vars(agent)"]
)
def test_what_reads_the_generator_keeps_it(read: str) -> None:
    source = MODEL.replace("SEEDED", SEEDED["kept"]).replace("MADE", "size, seed").replace("OTHER", "seed")
    found = rewritten.conversion(f"{source}print({read})\n").report
    assert bool(found.diagnostics) == ("seed" in read)


def test_a_seed_that_is_computed_is_refused() -> None:
    source = MODEL.replace("SEEDED", "self.seed = torch.manual_seed(seed + 1)").replace("MADE", "size, seed")
    assert "torch.manual_seed" in rewritten.conversion(source.replace("OTHER", "seed")).report.as_text()

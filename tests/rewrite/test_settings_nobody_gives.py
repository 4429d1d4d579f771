"""Settings of a base of module classes: constants where nobody gives them, refused where Flax has no place for them."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.lowering.plainer.settings_nobody_gives import with_constants_of_classes
from migrate.lowering.rounds import Input
from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


class Base(nn.Module):
    def __init__(self, every=2):
        super().__init__()
        self.every = every


class Task(Base):
    def forward(self, x):
        return self.fc(x) * self.every


class Net(Task):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(3, width)


net = Net(4)
print(net(torch.ones(1, 3)).shape, net.every)
"""
GIVEN = {
    "to a class that has no constructor of its own": ("net = Net(4)", "net = Net(4)\ntask = Task(3)"),
    "by a class that inherits": ("super().__init__()\n        self.fc", "super().__init__(3)\n        self.fc"),
    "to the base itself": ("net = Net(4)", "make = Base\nnet = Net(4)"),
}


def test_settings_that_nobody_gives_are_constants() -> None:
    made = rewritten.clean(TEXT).text
    assert "class Base(nn.Module):\n    every = 2\n" in made
    assert "class Net(Task):\n    width: int\n" in made


@pytest.mark.parametrize("how", GIVEN)
def test_settings_that_are_given_stay(how: str) -> None:
    text = TEXT.replace(*GIVEN[how])
    (made,) = with_constants_of_classes([Input(parse("x.py", text))])
    assert made.source.module.code == text


def test_settings_from_beyond_a_class_without_a_constructor_are_refused() -> None:
    found = rewritten.conversion(TEXT.replace(*GIVEN["by a class that inherits"])).report.diagnostics
    assert any(one.code == "MIG201" and "of a class that Task inherits from" in one.message for one in found)

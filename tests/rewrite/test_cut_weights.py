"""A weight that a method cuts to a smaller setting: refused where a Flax module, which is made anew of its settings,
would differ in more than that."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.length, 4)
        {more}

    def forward(self, x):
        return self.table(x)

    def shorten(self, length):
        {setting}
        self.table.weight = nn.Parameter(self.table.weight[{cut}])
        {last}
"""
KNOWN = {"more": "", "setting": "self.config.length = length", "cut": ":length", "last": ""}
MASK = 'self.register_buffer("mask", {})'
TRIANGLE = MASK.format("torch.ones(config.length, config.length).tril()[None]")
LOWER = MASK.format("torch.tril(torch.ones(config.length, config.length)).view(1, config.length, config.length)")


def findings(given: dict[str, str]) -> list[str]:
    diagnostics = convert(parse("net.py", SCRIPT.format(**{**KNOWN, **given}))).report.diagnostics
    return [f"{found.code} {found.message}" for found in diagnostics]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"more": "assert config.length > 0"},
        {"more": LOWER, "last": "self.mask = self.mask[:, :length, :length]"},
    ],
)
def test_what_only_is_shorter(given: dict[str, str]) -> None:
    assert findings(given) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"setting": "pass"}, "no setting of self that makes it says so"),
        ({"cut": "1:length"}, "is changed after its module was made"),
        ({"more": "self.scale = config.length**-0.5"}, "the constructor of Net goes by it"),
        ({"more": "self.head = nn.Linear(4, config.length)"}, "the constructor of Net goes by it"),
        ({"more": LOWER}, "the constructor of Net goes by it"),
        ({"more": LOWER, "last": "self.mask = self.mask[:, :length]"}, "the constructor of Net goes by it"),
        ({"more": TRIANGLE, "last": "self.mask = self.mask[:, :length, :length]"}, "the constructor of Net goes by it"),
        (
            {
                "more": MASK.format("torch.linspace(0, 1, config.length)"),
                "last": "self.mask = self.mask[:length]",
            },
            "the constructor of Net goes by it",
        ),
    ],
)
def test_what_also_is_something_else(given: dict[str, str], message: str) -> None:
    (found,) = findings(given)
    assert "MIG204" in found and message in found

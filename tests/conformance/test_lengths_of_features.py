"""Lengths of axes that the constructor of a layer tells: axes of length 1, and lengths that a number of parts
divides. Elsewhere a helper asks for the length."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.more = nn.Linear(width, 3 * width)
        self.numbers = nn.Linear(6, 192)
        self.score = nn.Linear(width, 1)
        self.critic = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
        self.conv = nn.Conv2d(width, 2 * width, 3)

    def forward(self, x):
        {0}
        return {1}
"""
SPLIT = [
    ("", "self.qkv(x).chunk(3, dim=-1)"),
    ("", "self.numbers(x).chunk(4, -1)"),
    ("q, k, v = torch.chunk(self.qkv(x), 3, dim=-1)", "q + k + v"),
    ("gates = self.qkv(x) + self.more(x)", "gates.chunk(3, dim=-1)"),
    ("", "self.score(x).squeeze(-1)"),
    ("", "self.critic(x).squeeze(-1)"),
    ("", "torch.sigmoid(self.score(x)).squeeze(-1)"),
    ("a, b = self.conv(x).chunk(2, dim=1)", "a * torch.sigmoid(b)"),
    ("", "self.conv(x).chunk(2, dim=-3)"),
]
ASKED = [
    ("", "self.qkv(x).chunk(3, dim=0)"),
    ("", "self.qkv(x).chunk(2, dim=-1)"),
    ("", "self.qkv(x).cumsum(1).chunk(3, dim=-1)"),
    ("", "self.score(x).squeeze(0)"),
    ("", "self.critic(x).squeeze(1)"),
    ("", "self.conv(x).chunk(2, dim=-1)"),
    ("", "self.qkv(x).squeeze(-1)"),
    ("", "x.squeeze(1)"),
]


def body(statement: str, result: str) -> str:
    """What a forward pass of a statement and a result becomes."""
    text = rewritten.clean(SCRIPT.format(statement or "pass", result)).text
    return text.partition("x):")[2].partition("\n\n")[0]


@pytest.mark.parametrize(("statement", "result"), SPLIT)
def test_a_length_that_is_told_is_not_asked_for(statement: str, result: str) -> None:
    made = body(statement, result)
    assert "jnp.split(" in made or ").squeeze(-1)" in made
    assert " chunk(" not in made and " squeeze(" not in made


@pytest.mark.parametrize(("statement", "result"), ASKED)
def test_a_length_that_is_not_told_is_asked_for(statement: str, result: str) -> None:
    made = body(statement, result)
    assert " chunk(" in made or " squeeze(" in made


INTEGERS = """import torch

x = torch.tensor([[-3, -1, 0, 1, 2]])
n = torch.tensor([[-2], [-1], [0], [3]])
powers = x**n
same = torch.pow(x, n)
x **= n[:1]
"""


def test_negative_powers_of_integers() -> None:
    ours, theirs = (rewritten.executed(text) for text in (str(rewritten.clean(INTEGERS).text), INTEGERS))
    for name in ("powers", "same", "x"):
        np.testing.assert_array_equal(np.asarray(ours[name]), theirs[name].numpy())

"""Attributes of modules that keep whether torch has something."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn
import torch.nn.functional as F
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        SET
        if not self.flash:
            print("slow")
            self.register_buffer("mask", torch.ones(3, 3))
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        USE
net = Attention()
y = net(torch.ones(2, 3, 4))
"""
ASKED = 'self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")'
SIDES = """if self.flash:
            # the fast one
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            out = self.mask @ v
        return out"""
EARLY = """if self.flash:
            return F.scaled_dot_product_attention(q, k, v)
        return self.mask @ v"""
CHOSEN = "return F.scaled_dot_product_attention(q, k, v) if self.flash else self.mask @ v"


@pytest.mark.parametrize("use", [SIDES, EARLY, CHOSEN])
def test_one_side_is_left(use: str) -> None:
    made = rewritten.clean(TEXT.replace("SET", ASKED).replace("USE", use)).text
    assert "flash" not in made.replace("scaled_dot", "") and "mask @" not in made and "slow" not in made
    assert ("# the fast one" in made) is ("# the fast one" in use)
    assert rewritten.executed(made)["y"].shape == (2, 3, 4)


@pytest.mark.parametrize(
    "asked",
    [
        "self.flash = False",  # a setting
        'self.flash = hasattr(torch.nn.functional, "nothing_like_it")',
        f"{ASKED}\n        self.flash = False",
    ],
)
def test_what_is_not_told_stays(asked: str) -> None:
    made = rewritten.conversion(TEXT.replace("SET", asked).replace("USE", SIDES)).text
    assert "self.flash" in made and "self.mask @ v" in made


def test_an_attribute_that_others_read_stays() -> None:
    made = rewritten.clean(TEXT.replace("SET", ASKED).replace("USE", SIDES) + "print(net.flash)\n").text
    assert "self.flash" in made or "def flash" in made


def test_a_class_whose_buffers_are_asked_for_stays() -> None:
    asks = "print(hasattr(net, 'mask'))\n"
    made = rewritten.conversion(TEXT.replace("SET", ASKED).replace("USE", SIDES) + asks).text
    assert "self.flash = True" in made and "self.mask @ v" in made

"""Objects of one of several classes: a method that one of them gives more than torch does is not called as it was."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SCRIPT = """import sys

import torch


class Noisy:
    def __init__(self, scale):
        self.scale = scale

    def act(self, x, shift=0.0):
        return x + NOISE * self.scale + shift


class Plain:
    def __init__(self, scale):
        self.scale = scale

    def act(self, x, shift=0.0):
        return x.abs() * self.scale + shift


settings = {"scale": 0.5}
if len(sys.argv) > 100:
    agent = Noisy(**settings)
elif len(sys.argv) > 99:
    agent = Noisy(2.0)
else:
    agent = Plain(**settings)


def play(agent, x):
    return agent.act(x, 1.0)


acted = WAY
"""


@pytest.mark.parametrize("way", ["agent.act(torch.full((3,), -2.0), 1.0)", "play(agent, torch.full((3,), -2.0))"])
def test_a_method_that_may_want_a_key_is_refused(way: str) -> None:
    text = SCRIPT.replace("WAY", way)
    made = rewritten.fresh(text.replace("NOISE", "torch.randn(3)"))
    (found,) = made.report.diagnostics
    assert found.code == "MIG404" and "may be Noisy.act, which is given key as well" in found.message
    acted = rewritten.executed(rewritten.clean(text.replace("NOISE", "1.5")).text)["acted"]
    assert acted.tolist() == [2.0, 2.0, 2.0]


def test_what_is_given_is_drawn_once() -> None:
    text = SCRIPT.replace("NOISE", "1.5").replace("WAY", "agent.act(torch.rand(3), 1.0)")
    assert rewritten.clean(text).text.count("subkey") == 2  # where it is split off, and where it is used


DRAWING = """import torch


class Field:
    def __init__(self, size, scale=1.0):
        self.values = torch.rand(size, 2) * 0 + scale


def made(settings):
    torch.manual_seed(1)
    start = torch.rand(2)
    return Field(GIVEN), start


field, start = made({"size": 3, "scale": 0.5})
"""


def test_settings_with_names_leave_room_for_a_key() -> None:
    made = rewritten.clean(DRAWING.replace("GIVEN", "**settings")).text
    assert "Field(**settings, key=subkey" in made
    assert rewritten.executed(made)["field"].values.tolist() == [[0.5, 0.5]] * 3
    (found,) = rewritten.fresh(DRAWING.replace("GIVEN", "*settings.values()")).report.diagnostics
    assert found.code == "MIG404" and "a star gives arguments beside key" in found.message

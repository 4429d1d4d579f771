"""Objects of one of several classes: where one of them has a key for a method, the others take it, too; a method that
is given more than that is not called as it was."""

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
# Called once, a method makes its key itself.
TWICE = "None\nfor turn in range(2):\n    acted = agent.act(torch.full((3,), -2.0), 1.0)"


@pytest.mark.parametrize("way", [TWICE, "play(agent, torch.full((3,), -2.0))"])
@pytest.mark.parametrize("noise", ["1.5", "torch.randn(3)", "torch.rand(3)"])
@pytest.mark.parametrize("cls", ["Plain", "Noisy"])
def test_all_methods_take_a_key_where_one_does(way: str, noise: str, cls: str) -> None:
    text = SCRIPT.replace("WAY", way).replace("NOISE", noise).replace("agent = Plain", f"agent = {cls}")
    theirs, ours = rewritten.both(text)
    assert ours["acted"].shape == theirs["acted"].shape == (3,)
    if cls == "Plain" or noise == "1.5":
        assert ours["acted"].tolist() == theirs["acted"].tolist()
    else:
        assert len(set(ours["acted"].tolist())) == 3
    if cls == "Plain":  # else a method that is called once may make its key itself
        keyed = 0 if noise == "1.5" else 2
        assert rewritten.clean(text).text.count("act(self, x, key, shift=0.0)") == keyed


def test_arguments_at_other_places_are_refused() -> None:
    text = SCRIPT.replace("WAY", TWICE).replace("NOISE", "torch.randn(3)")
    whole = "act(self, x, {shift}):\n        return x.abs()"
    text = text.replace(whole.format(shift="shift=0.0"), whole.format(shift="shift"))
    (found,) = rewritten.conversion(text).report.diagnostics
    assert found.code == "MIG404" and "their arguments at other places" in found.message


def test_a_method_that_may_want_more_than_a_key_is_refused() -> None:
    net = "net = torch.nn.Linear(3, 3)\n\n\nclass Noisy"
    text = SCRIPT.replace("class Noisy", net).replace("NOISE", "net(x)").replace("WAY", "agent.act(torch.ones(3))")
    (found,) = rewritten.conversion(text).report.diagnostics
    assert found.code == "MIG404" and "may be Noisy.act, which is given params as well" in found.message


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

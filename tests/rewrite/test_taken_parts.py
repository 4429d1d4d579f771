"""Parts that a constructor takes of another model: what would not be the same in JAX is refused at its place."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3)
        self._more(width)
        self.conv2 = nn.Conv2d(width, width, 3)

    def _more(self, width):
        self.conv3 = nn.Conv2d(width, width, 3)

    def forward(self, x):
        return self.conv3(self.conv2(self.conv1(x)))


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.conv1(x) * self.scale


class Taking(nn.Module):
    def __init__(self):
        super().__init__()
"""
TAIL = """
    def forward(self, x):
        return self.body(x)


model = Taking()
print(model(torch.zeros(2, 3, 9, 9)).shape)
"""
NOT_SET_UP = "a part of a module that Flax has not set up yet"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("net = Net(4); self.body = net.conv1; self.again = nn.Sequential(net.conv1, nn.ReLU())", NOT_SET_UP),
        ("net = Net(4); self.net = net; self.body = net.conv1", NOT_SET_UP),
        ("net = Scaled(4); self.body, self.other = net.conv1, nn.ReLU()", NOT_SET_UP),
        ("net = Net(4); self.body = nn.Sequential(*list(net.children())[:2])", "lists no parts"),
        ("net = Net(4); self.body = net.conv1.train()", NOT_SET_UP),
        ("net = Net(4); self.body = net.conv1; [nn.init.zeros_(m.bias) for m in (net.conv2,)]", NOT_SET_UP),
    ],
)
def test_refused(lines: str, said: str) -> None:
    body = "".join(f"        {line}\n" for line in lines.split("; "))
    found = convert(parse("a.py", HEAD + body + TAIL)).report.diagnostics
    assert any(said in one.message for one in found), [one.message for one in found]


def test_what_is_changed_under_a_name_is_kept() -> None:
    body = "        net = Net(4)\n        net.conv1 = nn.Conv2d(3, 4, 5)\n        self.body = net\n"
    converted = convert(parse("a.py", HEAD + body + TAIL))
    assert not converted.report.diagnostics and "new_conv1=nn.Conv(" in converted.text


def test_a_part_that_the_whole_keeps_has_its_weights_there() -> None:
    body = "        self.net = Net(4)\n        self.body = nn.Sequential(self.net.conv1, nn.ReLU())\n"
    converted = convert(parse("a.py", HEAD + body + TAIL))
    assert not converted.report.diagnostics
    model = next(one for one in converted.manifest.models if one.name == "Taking")
    assert [(tie.torch, tie.same_as) for tie in model.ties if tie.torch.endswith("weight")] == [
        ("body.0.weight", "net.conv1.weight")
    ]

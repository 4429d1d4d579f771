"""What a forward pass asks of layers that Flax's have not: one code at its place."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SOURCE = """import torch
import torch.nn as nn


class Inner(nn.Module):
    def forward(self, x):
        x += 1
        return x * 2


class M(nn.Module):
    def __init__(self, label="fc"):
        super().__init__()
        self.label = label
        self.fc = nn.Linear(4, 4)
        self.up = nn.ConvTranspose2d(3, 2, 3)
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.mixed = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(3, 3))
        self.inner = Inner()
        self.perhaps = nn.Linear(4, 4) if label else nn.Identity()
        self.one = nn.Conv2d(3, 3, 1) if label else nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3, 1, 1)))

    def forward(self, x):
        h = x * 2
        LINE
        return h
"""


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("self.fc.register_forward_hook(print)", "MIG301", "Flax has nothing like it in the place of torch.nn.Linear"),
        ("h = self.fc.extra_repr()", "MIG301", "Flax has nothing like it"),
        ("h = self.up(h, output_size=x.size())", "MIG203", "output_size=x.size()"),
        ("h = self.net[:1](h)", "MIG201", "self.net[:1] is a list in Flax"),
        ("h = [layer(h) for layer in self.mixed]", "MIG201", "moves of channels between its layers"),
        ("h = getattr(self, self.label)(h)", "MIG201", "which may be any of several modules"),
        ("h = sorted([x.sum(), x.mean()])", "MIG307", "sorted() compares the values"),
        ("h = self.inner(h) + h", "MIG303", "x is changed in place"),
        ("h = h + self.perhaps.weight", "MIG301", "another weight in each of several modules"),
        ("print(self.one.weight.shape)", "MIG301", "another weight in each of several modules"),
        ("h = list(map(torch.dropout, [h]))", "MIG304", "torch.dropout is"),
    ],
)
def test_refused(line: str, code: str, told: str) -> None:
    found = rewritten.conversion(SOURCE.replace("LINE", line)).report.diagnostics
    assert any(one.code == code and told in one.message for one in found), [str(one) for one in found]


def test_a_block_inside_one_that_records_nothing() -> None:
    line = "with torch.no_grad():\n            with torch.enable_grad():\n                h = h * 2"
    (found,) = rewritten.conversion(SOURCE.replace("LINE", line).replace("x += 1", "pass")).report.diagnostics
    assert found.code == "MIG302" and "torch.enable_grad() inside a block" in found.message


OFTEN_NONE = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, momentum=DEFAULT):
        super().__init__()
        self.norm = nn.BatchNorm1d(4, momentum=momentum)

    def forward(self, x):
        return self.norm(x)


net = Net(GIVEN)
print(net(torch.ones(3, 4)))
"""


@pytest.mark.parametrize(
    ("default", "given", "codes"),
    [("0.1", "0.2", []), ("0.1", "", []), ("0.1", "None", ["MIG203"]), ("None", "", ["MIG203"])],
)
def test_a_layer_of_another_form_where_an_argument_is_none(default: str, given: str, codes: list[str]) -> None:
    text = OFTEN_NONE.replace("DEFAULT", default).replace("GIVEN", given)
    assert [one.code for one in rewritten.conversion(text).report.diagnostics] == codes

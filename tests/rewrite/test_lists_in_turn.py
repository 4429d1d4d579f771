"""Loops over models with lists beside them: whose elements are taken by their places, as long as those are known."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn

first = nn.Linear(3, 2)
second = nn.Linear(3, 2)
nets = [first, second]
a = torch.optim.SGD(first.parameters(), lr=0.1)
b = torch.optim.SGD(second.parameters(), lr=0.2)
opts = [a, b]
told = [[], []]
x = torch.ones(4, 3)
for step in range(3):
    for net, opt, each in zip(nets, opts, told):
        loss = net(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        each.append(loss.item())
"""
CHANGED = {
    "grows": ("x = torch", "told.append([])\nx = torch"),
    "is another one": ("x = torch", "told = list(reversed(told))\nx = torch"),
    "loses an element": ("x = torch", "del told[0]\nx = torch"),
    "is made elsewhere": ("[[], []]", "make(2)"),
    "holds what is computed": ("[[], []]", "[make(), make()]"),
}


def test_each_turn_has_its_own_list() -> None:
    made = rewritten.clean(TEXT).text
    assert "each = told[0]" in made and "each = told[1]" in made


@pytest.mark.parametrize("how", CHANGED)
def test_lists_that_may_be_longer_or_shorter(how: str) -> None:
    text = TEXT.replace("import torch\n", "import torch\nfrom elsewhere import make\n", 1)
    made = rewritten.conversion(text.replace(*CHANGED[how]))
    assert "told[0]" not in made.text.replace("del told[0]", "")
    assert made.report.diagnostics

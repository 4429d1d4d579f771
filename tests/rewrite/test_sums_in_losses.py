"""Losses that start as one of their terms and go on in place, `loss = first; loss += second`, and terms that a number
decides on: `if margin.item() > 0`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn

model = nn.Linear(4, 2, bias=False)
torch.nn.init.constant_(model.weight, 0.3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.arange(12.0).reshape(3, 4) / 10
shown, second = [], torch.zeros(())
for step in range(4):
    EARLY
    optimizer.zero_grad()
    first = model(x).pow(2).mean()
    second = (model(x) - 1).abs().mean()
    loss = first
    MORE
    loss.backward()
    optimizer.step()
    shown.append(LATE)
"""
SUM = "loss += second"
DECIDED = "if (0.55 - second.data).item() > 0:\n        loss += 0.55 - second"
CHOSEN = "loss = first * 2 if second.item() > 0.55 else first"


def script(more: str, late: str = "loss.item()", early: str = "pass") -> str:
    return SCRIPT.replace("MORE", more).replace("LATE", late).replace("EARLY", early)


@pytest.mark.parametrize("more", [SUM, DECIDED, CHOSEN, f"{SUM}\n    loss = loss + second"])
@pytest.mark.parametrize("late", ["loss.item()", "loss.item() + second.item()"])
def test_the_losses_are_those_of_torch(more: str, late: str) -> None:
    theirs: dict[str, Any] = {}
    exec(script(more, late), theirs)
    ours = rewritten.executed(rewritten.clean(script(more, late)).text)["shown"]
    np.testing.assert_allclose(ours, theirs["shown"], rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        script(SUM, late="first.item()"),  # torch has changed it, too
        script(f"{SUM}\n    loss = loss * first"),
        script(SUM, early="print(first if step else None)"),
        script(f"{DECIDED}\n    loss = loss * first"),
    ],
)
def test_a_first_term_that_is_read_later_is_refused(text: str) -> None:
    found = rewritten.conversion(text).report.diagnostics
    assert {one.code for one in found} & {"MIG303", "MIG307"}


def test_a_later_loss_of_the_same_step_reads_it() -> None:
    text = script(SUM).replace(
        "    loss.backward()", "    loss.backward(retain_graph=True)\n    (first * 2).backward()"
    )
    assert "MIG303" in {one.code for one in rewritten.conversion(text).report.diagnostics}


FUNCTION = """import torch
import torch.nn as nn

model = nn.Linear(3, 2, bias=False)
torch.nn.init.constant_(model.weight, 0.3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x):
    with torch.no_grad():
        wanted = model(x) * 2
    loss = (model(x) - wanted).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


step(torch.ones(2, 3))
shown = model(torch.ones(1, 3)).tolist()
"""


def test_no_gradient_goes_through_no_grad_in_a_function_that_no_loop_calls() -> None:
    theirs: dict[str, Any] = {}
    exec(FUNCTION, theirs)
    ours = rewritten.executed(rewritten.clean(FUNCTION).text)["shown"]
    np.testing.assert_allclose(ours, theirs["shown"], rtol=1e-5)

"""Masks that go by shapes alone in the loss of a training loop, as contrastive losses have: of a function or of the
module, as an index or by `masked_select`."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
import torch.nn.functional as F

size = 3
model = nn.Linear(4, 2)
nn.init.constant_(model.weight, 0.1)
nn.init.constant_(model.bias, 0.2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
losses = []


def similarity(a, b):
    out = torch.cat([a, b])
    return torch.exp(torch.mm(out, out.t()))


def step(x):
    out_1, out_2 = F.normalize(model(x[0]) ** 2, dim=-1), model(x[1])
    sim = similarity(out_1, out_2)
    MASK
    loss = torch.log(SELECTED.sum(dim=-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


for turn in range(3):
    step(x)
"""
MASKS = {
    "ones": "mask = (torch.ones_like(sim) - torch.eye(2 * size, device=sim.device)).bool()",
    "eye": "mask = ~torch.eye(2 * size, dtype=torch.bool)",
    "sizes": "n = sim.size(0)\\n    mask = torch.eye(n) == 0",
}
SELECTIONS = [
    "sim.masked_select(mask).view(2 * size, -1)",
    "torch.masked_select(sim, mask).view(6, -1)",
    "sim[mask].view(6, -1)",
]


def in_loop(script: str) -> str:
    """The same with the step at the top level of the module."""
    body = script.partition("def step(x):\n")[2].partition("\n\n\nfor")[0]
    return script.partition("def step(x):\n")[0] + "for turn in range(3):\n" + body + "\n"


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("selected", SELECTIONS)
@pytest.mark.parametrize("place", ["function", "module"])
def test_the_same_losses(place: str, selected: str, mask: str) -> None:
    script = SCRIPT.replace("MASK", MASKS[mask].replace("\\n", "\n")).replace("SELECTED", selected)
    theirs, ours = rewritten.both(script if place == "function" else in_loop(script))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32: sums of some dozens of terms


def test_a_mask_of_fewer_axes_is_broadcast() -> None:
    mask = "mask = torch.arange(6) != 2"
    script = SCRIPT.replace("MASK", mask).replace("SELECTED", "sim.masked_select(mask).view(6, -1)")
    theirs, ours = rewritten.both(script)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize(
    "mask",
    [
        "mask = sim > 1",
        "mask = torch.eye(6) == 0\n    mask = sim * mask > 0",
        "mask = (sim - torch.ones_like(sim)).bool()",
    ],
)
def test_what_goes_by_values_needs_a_person(mask: str) -> None:
    script = SCRIPT.replace("MASK", mask).replace("SELECTED", "sim.masked_select(mask).view(6, -1)")
    assert "MIG302" in {one.code for one in rewritten.conversion(script).report.diagnostics}


def test_a_mask_that_the_host_selects_by_stays_there() -> None:
    script = """import torch

model = torch.nn.Linear(3, 1, bias=False)
torch.nn.init.constant_(model.weight, 0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for turn in range(3):
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    keep = torch.arange(4) != 2
    x = x[keep]
    loss = model(x).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
    theirs, ours = rewritten.both(script)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32: sums of 9 products


def test_a_mask_from_before_the_loop_needs_a_person() -> None:
    script = in_loop(SCRIPT.replace("MASK", "pass").replace("SELECTED", "sim[mask].view(6, -1)"))
    script = script.replace("for turn", "mask = torch.eye(6) == 0\nfor turn")
    assert "MIG302" in {one.code for one in rewritten.conversion(script).report.diagnostics}


def test_only_what_is_carried_from_turn_to_turn_grows() -> None:
    twice = "twice = sim[0]\n    twice = torch.cat([twice, twice])\n    mask = torch.eye(6) == 0"
    made = rewritten.clean(
        in_loop(SCRIPT.replace("MASK", twice).replace("SELECTED", "(sim[mask].view(6, -1) + twice[0])"))
    )
    assert "MIG501" not in {one.code for one in made.report.diagnostics}


def test_what_a_loop_of_the_host_makes_longer_grows() -> None:
    script = """import torch

model = torch.nn.Linear(3, 3)
x = torch.ones(1, 3)
for turn in range(3):
    x = torch.cat([x, model(x)[-1:]])
"""
    assert [(one.code, one.line) for one in rewritten.clean(script).report.diagnostics] == [("MIG501", 6)]


@pytest.mark.parametrize("selected", ["helpers.masked_select(sim, mask)", "helpers.table.masked_select(mask)"])
def test_what_is_not_known_to_be_torchs_selection_is_no_index(selected: str) -> None:
    script = f"import helpers\n{SCRIPT.replace('MASK', MASKS['eye']).replace('SELECTED', selected)}"
    made = rewritten.conversion(script)
    assert "[mask]" not in made.text and "broadcast_to" not in made.text

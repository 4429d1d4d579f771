"""Hyperparameters that scripts read and set, of all parameter groups or of one: the losses and the rates in both
frameworks, from the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, HEAD, trained

STEP = """    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
ONE = "optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
TWO = """optimizer = optim.SGD(
    [{"params": model.features.parameters(), "lr": 0.01, "scale": 2.0}, {"params": model.head.parameters()}],
    lr=0.1,
    momentum=0.9,
)
"""
RATES = '    rates.append([group["lr"] for group in optimizer.param_groups])\n'

FORMS = {
    "each has its own": TWO
    + """for group in optimizer.param_groups:
    group["initial_lr"] = group["lr"]
for epoch in range(6):
    for number, group in enumerate(optimizer.param_groups):
        scale = group["scale"] if "scale" in group else 1.0
        group["lr"] = group.get("initial_lr", 0.3) * scale * 0.9**epoch
        if number == 1:
            group["momentum"] = 0.5 + 0.05 * epoch
    if epoch == 3:
        optimizer.param_groups[-1]["lr"] *= 0.5
        print(len(optimizer.param_groups), optimizer.state_dict()["param_groups"][0]["lr"])
"""
    + STEP
    + RATES,
    "multiples of one rate": TWO
    + """scheduler = optim.lr_scheduler.StepLR(optimizer, 2)
for epoch in range(6):
    if epoch == 3:
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
"""
    + STEP
    + "    scheduler.step()\n    rates.append(scheduler.get_last_lr())\n    rates.append(scheduler.last_epoch)\n"
    + RATES,
    "a rate that is set between the steps of a scheduler": ONE
    + """scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 4, eta_min=0.01)
for epoch in range(8):
    if epoch < 2:
        for group in optimizer.param_groups:
            group.update(lr=0.1 * (epoch + 1) / 3)
"""
    + STEP
    + "    if epoch >= 2:\n        scheduler.step()\n"
    + RATES,
    "a metric": ONE
    + """scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, threshold=10.0)
for epoch in range(6):
    if epoch == 2:
        optimizer.param_groups[0]["lr"] = 0.3
"""
    + STEP
    + "    scheduler.step(loss.item())\n    rates.append(scheduler.num_bad_epochs)\n"
    + RATES,
    "two optimizers": """first = optim.SGD(model.features.parameters(), lr=0.1)
second = optim.Adam(model.head.parameters(), lr=0.05)


def adjust(optimizer, lr, epoch):
    for group in optimizer.param_groups:
        group["lr"] = lr * 0.5**epoch


def warmed(optimizer, steps, last_epoch=-1):
    return optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps), last_epoch)


scheduler = warmed(second, 3)
for epoch in range(4):
    adjust(first, 0.1, epoch)
    if epoch == 3:
        adjust(second, 0.2, epoch)
    loss = criterion(model(x), y)
    model.zero_grad()
    loss.backward()
    first.step()
    second.step()
    scheduler.step()
    losses.append(loss.item())
    rates.append([first.param_groups[0]["lr"], second.param_groups[0]["lr"]])
""",
    "a decay that one group has": """decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() < 2]
groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
optimizer = optim.AdamW(groups, lr=0.1, weight_decay=0.1)
for epoch in range(5):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (epoch + 1)
        if group["weight_decay"] > 0:
            group["weight_decay"] = 0.1 * (epoch + 1)
"""
    + STEP
    + RATES,
}


@pytest.mark.parametrize("name", FORMS)
def test_a_few_steps(name: str, float64: None) -> None:
    theirs, ours = trained(HEAD + "rates = []\n" + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    flat = [np.ravel(np.asarray(one, float)) for one in theirs["rates"]]
    assert len(ours["rates"]) == len(flat)
    for one, other in zip(ours["rates"], flat, strict=True):
        np.testing.assert_allclose(np.ravel(np.asarray(one, float)), other, rtol=EXACT)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("optimizer.state.clear()", "optimizer.state: what torch keeps there is not followed"),
        ("optimizer.state = {}", "optimizer.state is set"),
        ("scheduler.base_lrs = [0.5]", "scheduler.base_lrs is set"),
        ("print(optimizer.param_groups[0])", "a parameter group as a value"),
        ("print(optimizer.defaults)", "optimizer.defaults"),
        ("print(optimizer.param_groups[epoch]['lr'])", "which of the parameter groups it is"),
        ("optimizer.param_groups[0]['betas'] = (0.1, 0.2)", "this item of a parameter group is not followed"),
    ],
)
def test_what_is_not_followed(text: str, said: str) -> None:
    head = ONE + "scheduler = optim.lr_scheduler.StepLR(optimizer, 2)\n"
    made = convert(parse("x.py", f"{HEAD}{head}for epoch in range(3):\n    {text}\n{STEP}    scheduler.step()\n"))
    assert [said in each.message for each in made.report.diagnostics] == [True], made.report.as_text()


def test_schedules_of_each_group() -> None:
    text = "optim.lr_scheduler.LambdaLR(optimizer, [lambda e: 0.9**e, lambda e: 0.5**e])"
    made = convert(
        parse("x.py", f"{HEAD}{TWO}scheduler = {text}\nfor epoch in range(3):\n{STEP}    scheduler.step()\n")
    )
    assert "lr_lambda of each parameter group" in made.report.as_text()

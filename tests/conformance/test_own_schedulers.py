"""Scheduler classes of the user's own: the losses and the rates in both frameworks, from the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_group_settings import ONE, STEP
from tests.conformance.test_training_forms import EXACT, HEAD, trained

COSINE = '''import math

from torch.optim.lr_scheduler import LRScheduler, _LRScheduler


class WarmupCosine(_LRScheduler):
    """Up, and down again."""

    def __init__(self, optimizer: optim.Optimizer, warmup: int, total: int, least=0.0, last_epoch=-1) -> None:
        self.warmup, self.total, self.least = warmup, total, least
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch < self.warmup:
            return [base_lr * (self.last_epoch + 1) / self.warmup for base_lr in self.base_lrs]
        progress = (self.last_epoch - self.warmup) / (self.total - self.warmup)
        return [self.least + (rate - self.least) * 0.5 * (1 + math.cos(math.pi * progress)) for rate in self.base_lrs]


class Cycles(LRScheduler):
    def __init__(self, optimizer, length, greatest):
        self.length, self.greatest, self.at = length, greatest, -1
        super().__init__(optimizer)
        for group in self.optimizer.param_groups:
            group["lr"] = 0.001

    def get_lr(self):
        return [self.greatest * (self.at + 1) / self.length for _ in self.base_lrs]

    def step(self, epoch=None):
        self.at = (self.at + 1) % self.length
        for group, rate in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = rate


class Decay(LRScheduler):
    def get_lr(self):
        factor = 1.0 if self.last_epoch == 0 else 0.9
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class Plain:
    def __init__(self, optimizer, gamma):
        self.optimizer, self.gamma = optimizer, gamma
        self.first = [group["lr"] for group in optimizer.param_groups]
        self.number = 0

    def step(self):
        self.number += 1
        for group, rate in zip(self.optimizer.param_groups, self.first):
            group["lr"] = rate * self.gamma**self.number


'''
RATE = '    scheduler.step()\n    rates.append(optimizer.param_groups[0]["lr"])\n'

FORMS = {
    "by its number": ONE
    + "scheduler = WarmupCosine(optimizer, 3, 8)\nfor epoch in range(8):\n"
    + STEP
    + "    scheduler.step()\n    rates.append(scheduler.get_last_lr()[0] + scheduler.last_epoch)\n"
    "scheduler.load_state_dict(scheduler.state_dict())\n",
    "a step of its own": ONE + "scheduler = Cycles(optimizer, 3, 0.1)\nfor epoch in range(6):\n" + STEP + RATE,
    "by the rate before": ONE
    + "scheduler = Decay(optimizer)\nfor epoch in range(6):\n    if epoch == 3:\n"
    + '        optimizer.param_groups[0]["lr"] = 0.3\n'
    + STEP
    + RATE,
    "beside another one": ONE
    + """warm = WarmupCosine(optimizer, 3, 8)
scheduler = optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], gamma=0.2)
for epoch in range(6):
"""
    + STEP
    + """    if epoch < 2:
        warm.step()
    else:
        scheduler.step(epoch)
    rates.append(optimizer.param_groups[0]["lr"])
""",
    "no base of torch": ONE + "scheduler = Plain(optimizer, 0.5)\nfor epoch in range(4):\n" + STEP + RATE,
}


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step():UserWarning")
@pytest.mark.parametrize("name", FORMS)
def test_a_few_steps(name: str, float64: None) -> None:
    theirs, ours = trained(HEAD + COSINE + "rates = []\n" + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    np.testing.assert_allclose(ours["rates"], theirs["rates"], rtol=EXACT)
    assert len(set(theirs["rates"])) > 2


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("torch.cos(torch.tensor(1.0))", "uses torch"),
        ('self.optimizer.param_groups[0]["momentum"]', "changes more than the rate"),
    ],
)
def test_what_does_more_than_set_rates(body: str, said: str) -> None:
    text = f"class Mine(optim.lr_scheduler.LRScheduler):\n    def get_lr(self):\n        return [{body}]\n\n\n"
    made = convert(parse("x.py", f"{HEAD}{text}{ONE}scheduler = Mine(optimizer)\n"))
    assert any(said in each.message for each in made.report.diagnostics), made.report.as_text()


KEPT = """import io
kept = io.BytesIO()
scheduler = WarmupCosine(optimizer, 3, 8)
for epoch in range(4):
    STEP
torch.save({"scheduler": scheduler.state_dict()}, kept)
scheduler.step()
scheduler.step()
kept.seek(0)
scheduler.load_state_dict(torch.load(kept)["scheduler"])
for epoch in range(3):
    STEP
"""


def test_its_state_comes_back_from_a_file(float64: None) -> None:
    """With its lists, which Flax keeps as dicts by number."""
    body = (STEP + RATE).strip("\n").removeprefix("    ")
    theirs, ours = trained(HEAD + COSINE + "rates = []\n" + ONE + KEPT.replace("STEP", body))
    np.testing.assert_allclose(ours["rates"], theirs["rates"], rtol=EXACT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)

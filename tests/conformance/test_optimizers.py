"""Every optimizer, schedule and loss: ten steps of a small training loop in both frameworks, from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from migrate.files.source import parse
from migrate.optimizers import COMPOSED, OPTIMIZERS, SCHEDULES
from migrate.pipeline import convert
from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from weight_port import port_state_dict

SCRIPT = """import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.last = nn.Linear(5, OUT)

    def forward(self, x):
        x = self.last(torch.tanh(self.first(x)))
        return LAST


x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = TARGET
model = Net()
criterion = LOSS
optimizer = optim.OPTIMIZER
SCHEDULER
losses = []
for step in range(20):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    STEP
    losses.append(loss.item())
"""


@dataclass(frozen=True)
class Case:
    """What differs from one script to the next."""

    optimizer: str = "SGD(model.parameters(), lr=0.1)"
    scheduler: str = ""
    loss: str = "nn.MSELoss()"
    target: str = "torch.sin(torch.linspace(0, 5, 16)).reshape(8, 2)"
    last: str = "x"

    def __str__(self) -> str:
        return self.scheduler or (self.loss if self.loss != Case.loss else self.optimizer)

    def source(self) -> str:
        text = SCRIPT.replace("OPTIMIZER", self.optimizer).replace("LOSS", self.loss).replace("TARGET", self.target)
        text = text.replace("OUT", "3" if self.target == LABELS else "2").replace("LAST", self.last)
        text = text.replace(
            "SCHEDULER\n", f"scheduler = optim.{_in_package(self.scheduler)}\n" if self.scheduler else ""
        )
        argument = "loss.item()" if self.scheduler.startswith("ReduceLROnPlateau") else ""
        return text.replace("    STEP\n", f"    scheduler.step({argument})\n" if self.scheduler else "")


def optimizers(*arguments: str) -> list[Case]:
    """Cases of optimizers, from `Name: further arguments`."""
    made = []
    for text in arguments:
        name, _, rest = text.partition(": ")
        made.append(Case(f"{name}(model.parameters(){', ' if rest else ''}{rest})"))
    return made


OPTIMIZER_CASES = optimizers(
    "SGD",
    "SGD: 0.1",
    "SGD: lr=0.1, momentum=0.9",
    "SGD: lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05",
    "SGD: lr=0.1, momentum=0.9, nesterov=len(x) > 1",
    "Adam",
    "Adam: lr=0.01, betas=(0.5, 0.9), eps=1e-3",
    "Adam: 0.02, weight_decay=0.1",
    "AdamW",
    "AdamW: 0.02, (0.8, 0.99), 1e-4, 0.2",
    "Adadelta",
    "Adadelta: lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1",
    "RMSprop",
    "RMSprop: lr=0.01, alpha=0.9, eps=1e-3",
    "RMSprop: lr=0.01, momentum=0.9, centered=True, weight_decay=0.1",
    "Adagrad",
    "Adagrad: lr=0.1, initial_accumulator_value=0.3, weight_decay=0.1",
    "Adamax",
    "Adamax: lr=0.02, betas=(0.5, 0.9), eps=1e-3, weight_decay=0.1",
    "SGD: lr=0.1, momentum=0.9, dampening=0.3",
    "SGD: lr=0.01, maximize=True, weight_decay=0.3",
    "Adam: lr=0.1, amsgrad=True, weight_decay=0.1",
    "Adam: lr=0.01, maximize=True",
    "AdamW: lr=0.1, amsgrad=True, weight_decay=0.2",
    "Adagrad: lr=0.1, lr_decay=0.2, eps=1e-3",
    "RMSprop: lr=0.01, momentum=0.9",
    "NAdam",
    "NAdam: lr=0.02, betas=(0.8, 0.95), eps=1e-4, momentum_decay=0.1, weight_decay=0.1",
    "NAdam: lr=0.02, weight_decay=0.3, decoupled_weight_decay=True",
    "RAdam: lr=0.05",
    "RAdam: lr=0.05, betas=(0.7, 0.8), eps=1e-3, weight_decay=0.1",
    "RAdam: lr=0.05, weight_decay=0.3, decoupled_weight_decay=True",
    "Rprop",
    "Rprop: lr=0.02, etas=(0.4, 1.3), step_sizes=(1e-3, 0.1)",
    "ASGD",
    "ASGD: lr=0.2, lambd=0.1, alpha=0.5, weight_decay=0.05",
)

SCHEDULED = "SGD(model.parameters(), lr=0.3, momentum=0.5)"


def _in_package(scheduler: str) -> str:
    """A scheduler with the module of torch.optim that it is in."""
    return scheduler if scheduler.startswith("swa_utils.") else f"lr_scheduler.{scheduler}"


SCHEDULE_CASES = [
    Case(SCHEDULED, scheduler)
    for scheduler in (
        "StepLR(optimizer, step_size=3)",
        "StepLR(optimizer, 2, gamma=0.5)",
        "ExponentialLR(optimizer, gamma=0.8)",
        "LambdaLR(optimizer, lr_lambda=lambda epoch: 0.9**epoch)",
        "CosineAnnealingLR(optimizer, T_max=10)",
        "CosineAnnealingLR(optimizer, 4, eta_min=0.01)",
        "MultiStepLR(optimizer, milestones=[2, 5], gamma=0.3)",
        "PolynomialLR(optimizer, total_iters=6, power=2.0)",
        "MultiplicativeLR(optimizer, lr_lambda=lambda epoch: 0.9 + epoch / 100)",
        "ConstantLR(optimizer, factor=0.4, total_iters=4)",
        "LinearLR(optimizer, start_factor=0.25, total_iters=6)",
        "CosineAnnealingWarmRestarts(optimizer, T_0=3, T_mult=2, eta_min=0.02)",
        "CosineAnnealingLR(optimizer, T_max=4)",
        "OneCycleLR(optimizer, max_lr=0.4, total_steps=25)",
        "OneCycleLR(optimizer, 0.4, epochs=5, steps_per_epoch=5, anneal_strategy='linear', three_phase=True)",
        "CyclicLR(optimizer, base_lr=0.05, max_lr=0.3, step_size_up=3, step_size_down=5)",
        "CyclicLR(optimizer, 0.05, 0.3, 4, mode='triangular2', cycle_momentum=False)",
        "CyclicLR(optimizer, 0.05, 0.3, 4, mode='exp_range', gamma=0.9)",
        "SequentialLR(optimizer, [optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5), "
        "optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)], milestones=[5])",
        "ChainedScheduler([optim.lr_scheduler.ConstantLR(optimizer, 0.1, 4), "
        "optim.lr_scheduler.ExponentialLR(optimizer, 0.9)])",
        "swa_utils.SWALR(optimizer, swa_lr=0.05)",
        "swa_utils.SWALR(optimizer, 0.3, anneal_epochs=7, anneal_strategy='linear')",
    )
]
SCHEDULE_CASES += [
    Case("Adam(model.parameters(), lr=0.05)", "StepLR(optimizer, step_size=4, gamma=0.25)"),
    Case("AdamW(model.parameters(), lr=0.05, weight_decay=0.3)", "ExponentialLR(optimizer, gamma=0.7)"),
    Case("AdamW(model.parameters(), lr=0.05)", "OneCycleLR(optimizer, max_lr=0.1, total_steps=21)"),
    Case("RMSprop(model.parameters(), lr=0.01, momentum=0.9)", "ExponentialLR(optimizer, gamma=0.5)"),
    Case("RMSprop(model.parameters(), momentum=0.9, centered=True)", "ExponentialLR(optimizer, gamma=0.5)"),
    Case(SCHEDULED, "ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.2, cooldown=1)"),
    Case(SCHEDULED, "ReduceLROnPlateau(optimizer, 'max', 0.3, 1, threshold_mode='abs', min_lr=0.01)"),
]

LABELS = "torch.tensor([0, 2, 1, 0, 1, 2, 2, 0])"
UNIT = "torch.sigmoid(torch.linspace(-3, 3, 16)).reshape(8, 2)"
LOSS_CASES = [
    Case(loss="nn.CrossEntropyLoss()", target=LABELS),
    Case(loss='nn.CrossEntropyLoss(reduction="sum")', target=LABELS),
    Case(loss="nn.CrossEntropyLoss(ignore_index=1, label_smoothing=0.1)", target=LABELS),
    Case(loss="nn.NLLLoss()", target=LABELS, last="F.log_softmax(x, dim=1)"),
    Case(loss='nn.NLLLoss(ignore_index=2, reduction="sum")', target=LABELS, last="F.log_softmax(x, dim=1)"),
    Case(loss='nn.MSELoss(reduction="sum")'),
    Case(loss="nn.L1Loss()"),
    Case(loss="nn.SmoothL1Loss()"),
    Case(loss="nn.SmoothL1Loss(beta=0.3)"),
    Case(loss="nn.HuberLoss(delta=0.3)"),
    Case(loss='nn.KLDivLoss(reduction="batchmean")', target=UNIT, last="F.log_softmax(x, dim=1)"),
    Case(loss="nn.BCELoss()", target=UNIT, last="torch.sigmoid(x)"),
    Case(loss='nn.BCEWithLogitsLoss(reduction="sum")', target=UNIT),
]


@dataclass(frozen=True)
class Trained:
    losses: list[float]
    weights: dict[str, Any]
    traced: int = 0  # how often jit has traced the step


def both(case: Case) -> tuple[Trained, Trained]:
    """Twenty steps in torch and, from its initial weights, in JAX."""
    made = rewritten.clean(case.source())
    weights = rewritten.model_weights(made, "Net")
    torch.manual_seed(5)
    remember = "start = {name: value.clone().numpy() for name, value in model.state_dict().items()}"
    written = rewritten.executed(case.source().replace("model = Net()", f"model = Net()\n{remember}"))
    start = jax.tree.map(jnp.asarray, port_state_dict(written["start"], weights))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Module, "init", lambda self, *args, **kwargs: start)
        updated = Mock(wraps=optax.apply_updates)
        patch.setattr(optax, "apply_updates", updated)
        ours = rewritten.executed(made.text)
    after = leaves(port_state_dict(numpy_state(written["model"]), weights)["params"])
    return Trained(written["losses"], after), Trained(ours["losses"], leaves(ours["params"]), updated.call_count)


# Both compute in float64, twenty times over: some 1e-15. The smallest thing to notice is a misplaced epsilon, 1e-8.
EXACT = 1e-9


@pytest.mark.parametrize("case", [*OPTIMIZER_CASES, *SCHEDULE_CASES, *LOSS_CASES], ids=str)
def test_twenty_steps(case: Case, float64: None) -> None:
    theirs, ours = both(case)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=EXACT)
    assert len(set(theirs.losses)) > 5
    assert ours.traced == 1
    assert sorted(ours.weights) == sorted(theirs.weights)
    for path, weight in theirs.weights.items():
        np.testing.assert_allclose(ours.weights[path], weight, rtol=EXACT, atol=EXACT, err_msg=path)


@pytest.mark.parametrize(
    ("registry", "cases", "attribute", "path"),
    [
        (OPTIMIZERS, OPTIMIZER_CASES, "optimizer", str),
        (SCHEDULES | COMPOSED, SCHEDULE_CASES, "scheduler", _in_package),
    ],
)
def test_every_entry_is_tried(
    registry: dict[str, object], cases: list[Case], attribute: str, path: Callable[[str], str]
) -> None:
    closures = {"torch.optim.LBFGS"}  # its step takes a closure: a form of training of its own
    tried = {"torch.optim." + path(getattr(case, attribute)).partition("(")[0] for case in cases}
    assert tried == set(registry) - closures


def test_a_schedule_that_starts_elsewhere(float64: None) -> None:
    theirs, ours = both(Case(SCHEDULED, "LambdaLR(optimizer, lr_lambda=lambda epoch: (epoch + 1) / 10)"))
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=EXACT)


def test_two_schedulers_of_one_rate_are_refused() -> None:
    """The second would undo the first."""
    text = Case(SCHEDULED, "ExponentialLR(optimizer, 0.9)").source()
    text = text.replace("losses = []", "other = optim.lr_scheduler.StepLR(optimizer, 3)\nlosses = []")
    text = text.replace("scheduler.step()", "scheduler.step()\n    other.step()")
    assert "two schedulers" in convert(parse("train.py", text)).report.as_text()

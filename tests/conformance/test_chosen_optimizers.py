"""Optimizers and schedulers that a script chooses by name: ten steps in both frameworks, from the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, HEAD, LOOP, SGD, trained

SETTINGS = "import argparse\nargs = argparse.Namespace(optim='Adam', lr=0.05, policy='warm')\n"
STEPPED = LOOP + "    scheduler.step()\n    losses.append(optimizer.param_groups[0]['lr'])\n"
BRANCHES = """if args.policy == "step":
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
elif args.policy == "warm":
    scheduler = optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
else:
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
"""
MADE_BY_A_FUNCTION = """def get_scheduler(optimizer, policy):
    if policy == "linear":
        def rule(epoch):
            return 1.0 - epoch / 20
        scheduler = optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=rule)
    elif policy == "step":
        scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.3)
    else:
        raise NotImplementedError(policy)
    return scheduler


def warmed(optimizer, name):
    if name == "step":
        return optim.lr_scheduler.StepLR(optimizer, 3)
    return optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)


other = Net()
"""

WITH_A_SCHEDULER = """def build(net, rate):
    optimizer = optim.SGD(net.parameters(), lr=rate)
    scheduler = optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
"""

FORMS = {
    "an attribute of torch.optim": SETTINGS + "optimizer = getattr(optim, args.optim)(model.parameters(), lr=args.lr)\n"
    "scheduler = optim.lr_scheduler.StepLR(optimizer, 3)\n" + STEPPED,
    "an entry of the module": SETTINGS
    + "optimizer = torch.optim.__dict__[args.optim](params=model.parameters(), lr=args.lr)\n"
    + LOOP,
    "an entry by vars": SETTINGS + "optimizer = vars(optim)[args.optim](model.parameters(), lr=args.lr)\n" + LOOP,
    "an attribute that is written out": "optimizer = getattr(torch.optim, 'RMSprop')(model.parameters(), 0.1)\n" + LOOP,
    "a class under a name": "cls = optim.Adam\noptimizer = cls(model.parameters(), lr=0.1)\n" + LOOP,
    "one of two": SETTINGS + "cls = optim.SGD if args.optim == 'sgd' else optim.AdamW\n"
    "optimizer = cls(model.parameters(), lr=0.1)\n" + LOOP,
    "a dict in place, of which not all take what they are given": SETTINGS
    + "optimizer = {'SGD': optim.SGD, 'Adam': optim.Adam}[args.optim](model.parameters(), lr=0.1, betas=(0.8, 0.9))\n"
    + LOOP,
    "a dict under a name": SETTINGS + "OPTIMIZERS = {'SGD': optim.SGD, 'Adam': optim.Adam}\n\n\n"
    "def made(net):\n    optimizer = OPTIMIZERS[args.optim](net.parameters(), lr=args.lr)\n    return optimizer\n\n\n"
    "optimizer = made(model)\n" + LOOP,
    "schedulers by branches": SETTINGS + SGD + BRANCHES + STEPPED,
    "a scheduler or none": SETTINGS + SGD + "scheduler = None\nif args.policy == 'warm':\n"
    "    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)\n"
    + STEPPED.replace("    scheduler.step", "    if scheduler is not None:\n        scheduler.step"),
    "no scheduler, of a function that takes one": SGD + "scheduler = None\nif len(losses) > 3:\n"
    "    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)\n\n\ndef train(model, optimizer, scheduler=None):\n    "
    + STEPPED.replace("\n", "\n    ").replace(
        "    scheduler.step", "    if scheduler is not None:\n            scheduler.step"
    )
    + "\n\ntrain(model, optimizer, scheduler)\n",
    "schedulers made by functions": MADE_BY_A_FUNCTION
    + SGD
    + "scheduler = get_scheduler(optimizer, 'linear')\nsecond = optim.SGD(other.parameters(), lr=0.3)\n"
    + "later = warmed(second, 'warm')\n"
    + STEPPED
    + "    second.zero_grad()\n    loss = criterion(other(x), y)\n    loss.backward()\n    second.step()\n"
    + "    later.step()\n    losses += [loss.item(), second.param_groups[0]['lr']]\n",
    "a scheduler made with its optimizer": WITH_A_SCHEDULER
    + "    return optimizer, scheduler\n\n\noptimizer, scheduler = build(model, 0.2)\n"
    + STEPPED,
    "a scheduler made with its optimizer and its model": WITH_A_SCHEDULER.replace("net, rate", "rate").replace(
        "):\n", "):\n    net = model\n"
    )
    + "    return net, optimizer, scheduler\n\n\nmodel, optimizer, scheduler = build(0.2)\n"
    + STEPPED,
    "everything made anew": "for fold in range(2):\n"
    "    optimizer = optim.SGD(model.parameters(), lr=0.1 * (fold + 1))\n"
    + "    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)\n    "
    + STEPPED.replace("\n", "\n    ")
    + "\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_ten_steps(name: str, float64: None) -> None:
    theirs, ours = trained(HEAD + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert len(set(theirs["losses"])) > 5


PLATEAU = BRANCHES.replace(
    "optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)", "optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SETTINGS + SGD + PLATEAU + STEPPED, "that are not stepped alike"),
        (
            SGD
            + "scheduler = optim.lr_scheduler.StepLR(optimizer, 3)\n"
            + STEPPED
            + "scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"
            + STEPPED,
            "takes the place of a scheduler that has changed the rate",
        ),
        (
            SETTINGS + "optimizer = getattr(optim, args.optim)(model.parameters())\n"
            "scheduler = optim.lr_scheduler.StepLR(optimizer, 3)\n" + STEPPED,
            "whose rates differ",
        ),
        (
            WITH_A_SCHEDULER + "    return optimizer\n\n\noptimizer = build(model, 0.2)\n" + LOOP,
            "has set its rate, and is not returned",
        ),
        (
            "def cycled(optimizer):\n    return optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=10)\n\n\n"
            + SGD
            + "scheduler = cycled(optimizer)\n"
            + STEPPED,
            "cycles the momentum, and is made in another function",
        ),
    ],
    ids=lambda value: "" if "\n" in value else value,
)
def test_what_is_refused(text: str, said: str) -> None:
    """Each would train with another rate, or stop where it steps."""
    assert said in convert(parse("train.py", HEAD + text)).report.as_text()

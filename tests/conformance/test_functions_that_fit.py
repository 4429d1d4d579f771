"""Functions that are given what they train and how: ten steps in both frameworks, from the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, HEAD, trained

STEP = """        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
"""
FIT = "def fit(steps, lr, model, opt_func=torch.optim.SGD):\n    optimizer = opt_func(model.parameters(), lr)\n"
FIT += "    for step in range(steps):\n" + STEP + "\n\n"
ONE_CYCLE = """def get_lr(optimizer):
    for group in optimizer.param_groups:
        return group["lr"]


def fit(steps, max_lr, model, weight_decay=0, grad_clip=None, opt_func=torch.optim.SGD):
    optimizer = opt_func(model.parameters(), max_lr, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr, total_steps=steps)
    for step in range(steps):
        loss = criterion(model(x), y)
        loss.backward()
        if grad_clip:
            nn.utils.clip_grad_value_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item() + get_lr(optimizer))
        schedule.step()


"""
HANDED_ON = """class Trainer:
    def __init__(self, model, cls, lr):
        self.model = model
        self.optimizer = cls(model.parameters(), lr=lr)

    def run(self, steps):
        for step in range(steps):
            self.optimizer.zero_grad()
            loss = criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())


def train(model, opt=optim.RMSprop):
    Trainer(model, opt, 0.01).run(10)


"""
LOSS_BATCH = """def loss_batch(model, loss_func, x, y, opt=None):
    loss = loss_func(model(x), y)

    if opt is not None:
        loss.backward()
        opt.step()
        opt.zero_grad()

    return loss.item(), len(x)


def fit(steps, model, loss_func, opt):
    for step in range(steps):
        model.train()
        loss_batch(model, loss_func, x, y, opt)
        model.eval()
        with torch.no_grad():
            found, numbers = zip(*[loss_batch(model, loss_func, part, y[:4]) for part in (x[:4], x[4:])])
        losses.append(sum(found) / sum(numbers))


"""
ONE_EPOCH = """def one(model, x, y, optimizer=None):
    loss = criterion(model(x), y)
    if optimizer:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    elif len(x) > 100:
        raise ValueError("too many")
    return loss.item()


def epoch(model, optimizer=None):
    model.train(optimizer is not None)
    return one(model, x, y, optimizer) * (2.0 if optimizer is None else 1.0)


"""
HANDED = """def train(model, loss_func, optimizer):
    for step in range(10):
        optimizer.zero_grad()
        loss = loss_func(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


"""
SPLIT = """    for step in range(5):
        {zero}loss = criterion(model(x), y)
        loss.backward()
        if step > 1:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step(){after}
        losses.append(loss.item())


"""
OWN = "    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
BEFORE = SPLIT.format(zero="optimizer.zero_grad()\n        ", after="")
AFTER = SPLIT.format(zero="", after="\n        optimizer.zero_grad()")
UNDER = BEFORE.replace("if step > 1:", "if limit is not None and limit > 0:").replace("0.1)", "limit)")
SCALED = UNDER.replace("loss.backward()", "scaler.scale(loss).backward()").replace(
    "            nn.utils", "            scaler.unscale_(optimizer)\n            nn.utils"
)
SCALED = SCALED.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
RETURNED = "def built(lr):\n    net = Net()\n    return net, optim.SGD(net.parameters(), lr=lr)\n\n\n"

FORMS = {
    "the class of an optimizer by default": FIT + "fit(10, 0.1, model)\n",
    "the class of an optimizer, by a name of the file": FIT
    + "opt_func = torch.optim.Adam\nfit(10, 0.1, model, opt_func=opt_func)\n",
    "the class of an optimizer, by a name of the main block": FIT
    + "if __name__ != 'another':\n    opt_func = optim.Adam\n    fit(10, 0.1, model, opt_func)\n",
    "the class of an optimizer, by a name of a function": FIT
    + "def main():\n    opt_func = optim.Adam\n    fit(10, 0.1, model, opt_func)\n\n\nmain()\n",
    "the classes of several": FIT + "fit(5, 0.1, model)\nfit(5, 0.01, model, torch.optim.AdamW)\n",
    "a class with its arguments and a schedule": ONE_CYCLE
    + "fit(10, 0.05, model, 1e-3, grad_clip=0.01, opt_func=torch.optim.Adam)\n",
    "a class that is handed on": HANDED_ON + "train(model, optim.Adam)\n",
    "an optimizer in some calls alone": LOSS_BATCH
    + "fit(10, model, F.mse_loss, optim.SGD(model.parameters(), lr=0.1, momentum=0.9))\n",
    "an optimizer that is handed on in some calls alone": ONE_EPOCH
    + "optimizer = optim.Adam(model.parameters(), lr=0.01)\nfor step in range(5):\n"
    "    losses += [epoch(model, optimizer), epoch(model)]\n",
    "a function of torch's for the loss": HANDED
    + "train(model, F.smooth_l1_loss, optim.SGD(model.parameters(), 0.1))\n",
    "the same with arguments": "from functools import partial\n\n\n"
    + HANDED
    + "train(model, partial(F.smooth_l1_loss, beta=0.5), optim.SGD(model.parameters(), 0.1))\n",
    "gradients of a model from outside": f"def train(model):\n{OWN}{BEFORE}train(model)\ntrain(model)\n",
    "gradients of a model from outside, cleared later": f"def train(model):\n{OWN}{AFTER}train(model)\ntrain(model)\n",
    "gradients of a model of the file": f"def train():\n{OWN}{BEFORE}train()\ntrain()\n",
    "clipping in some calls alone": f"def train(model, limit=None):\n{OWN}{UNDER}"
    "train(model)\ntrain(model, limit=0.01)\n",
    "clipping with a scaler in some calls alone": f"scaler = torch.amp.GradScaler('cpu', enabled=False)\n\n\n"
    f"def train(model, limit=None):\n{OWN}{SCALED}train(model)\ntrain(model, limit=0.01)\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_fits_alike(name: str, float64: None) -> None:
    theirs, ours = trained(HEAD + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert len(set(theirs["losses"])) > 5


def test_clipping_under_a_number_is_part_of_the_step() -> None:
    call = "train(model, limit=float(len(x)))\n"
    text = convert(parse("train.py", f"{HEAD}def train(model, limit=None):\n{OWN}{UNDER}{call}")).text
    assert '@jax.jit(static_argnames=("model", "optimizer", "limit")' in text
    assert "    if limit is not None and limit > 0:\n        grads, _ = clip_grad_norm(grads, limit)\n" in text


def test_one_class_for_all_calls_is_named_where_it_is_called() -> None:
    text = convert(parse("train.py", HEAD + FORMS["the class of an optimizer, by a name of the file"])).text
    assert "optimizer = optax.adam(lr)" in text
    assert "opt_func" not in text


def test_an_optimizer_that_is_returned_unnamed() -> None:
    loop = "for step in range(10):\n    optimizer.zero_grad()\n    loss = criterion(net(x), y)\n    loss.backward()\n"
    made = convert(
        parse(
            "train.py",
            HEAD.replace("model = Net()\n", "")
            + RETURNED
            + "net, optimizer = built(0.1)\n"
            + loop
            + "    optimizer.step()\n",
        )
    )
    assert not made.report.diagnostics
    assert "    optimizer = optax.sgd(lr)\n    return net, optimizer\n" in made.text


GIVEN = {
    "one or none": "one(model, x, y, optimizer if losses else None)\n",
    "a name that may be None": "perhaps = None\nif losses:\n    perhaps = optimizer\none(model, x, y, perhaps)\n",
    "a parameter that some call gives None": "def epoch(model, x, y, optimizer):\n"
    "    return one(model, x, y, optimizer)\n\n\nepoch(model, x, y, optimizer)\nepoch(model, x, y, None)\n",
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_may_be_none_is_not_told_apart(name: str) -> None:
    head = HEAD + ONE_EPOCH[: ONE_EPOCH.index("def epoch")] + "optimizer = optim.Adam(model.parameters(), lr=0.01)\n"
    text = convert(parse("train.py", head + GIVEN[name] + "one(model, x, y)\n")).text
    assert "one_without_optimizer" not in text


REFUSED = {
    "a class that is called and kept": (
        FIT.replace("    for step", "    kept = [opt_func]\n    for step", 1)
        + "fit(10, 0.1, model)\nfit(1, 0.1, model, optim.Adam)\n",
        "is used as a value",
    ),
    "a class that nothing tells": (
        FIT + "fit(10, 0.1, model, opt_func=getattr(some, 'Adam'))\n".replace("some", "losses"),
        "is used as a value",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, said = REFUSED[name]
    assert any(said in found.message for found in convert(parse("train.py", HEAD + text)).report.diagnostics)

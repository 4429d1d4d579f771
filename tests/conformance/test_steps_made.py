"""Functions that train, made by others: `step = make_step(model, optimizer)`, and by methods of an object."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import both, conversion

START = """import torch
from torch import nn

torch.manual_seed(0)


def net():
    made = nn.Sequential(nn.Linear(1, 1))
    nn.init.constant_(made[0].weight, 0.5)
    nn.init.constant_(made[0].bias, 0.25)
    return made


x = torch.arange(8.0).reshape(8, 1) / 8
y = 2 * x + 1
"""
MAKER = """

def make_step(model, loss_fn, optimizer):
    def step(x, y):
        model.train()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step
"""
OBJECT = """

class Trainer:
    def __init__(self, model, loss_fn, optimizer):
        self.model = model
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.step = self._make_step()
        self.measure = self._make_measure()

    def _make_step(self):
        HERE# Trains on a batch.
        def perform_step(x, y):
            self.model.train()
            loss = self.loss_fn(self.model(x), y)TIMES
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            return loss.item()

        return perform_step

    def _make_measure(self):
        def measure_batch(x, y):
            self.model.eval()
            return self.loss_fn(self.model(x), y).item()

        return measure_batch

    def run(self, x, y, times):
        losses = []
        for time in range(times):
            losses.append(self.step(x, y))
            with torch.no_grad():
                losses.append(self.measure(x, y))
        return losses


model = net()
trainer = Trainer(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))
shown = trainer.run(x, y, 3)
"""
ONE = """
model = net()
step = make_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))
"""
PROGRAMS = {
    "in a file": f"{ONE}shown = [step(x, y) for _ in range(3)]\n".replace(
        "[step(x, y) for _ in range(3)]", "[]\nfor _ in range(3):\n    shown.append(step(x, y))"
    ),
    "in a function": """
def main():
    model = net()
    step = make_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))
    losses = []
    for _ in range(3):
        losses.append(step(x, y))
    return losses


shown = main()
""",
    "two of them": """
class Curve(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5]))

    def forward(self, x):
        return torch.exp(self.weight * x)


a, b = net(), Curve()
first = make_step(a, nn.MSELoss(), torch.optim.SGD(a.parameters(), lr=0.1))
second = make_step(b, nn.L1Loss(), torch.optim.SGD(b.parameters(), lr=0.01))
shown = []
for _ in range(3):
    shown.append(first(x, y))
    shown.append(second(x, y))
""",
    "with an optimizer of one's own": """
class Warm:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.count = 0

    def step(self):
        self.count += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 * self.count
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


def main():
    model = net()
    warm = Warm(torch.optim.Adam(model.parameters()))
    step = make_step(model, nn.MSELoss(), warm)
    losses = []
    for _ in range(3):
        losses.append(step(x, y))
    return losses


shown = main()
""",
    "given to a function": f"""
def run(step, x, y):
    return step(x, y)

{ONE}
shown = []
for _ in range(3):
    shown.append(run(step, x, y))
""",
    "of an object": OBJECT.replace("HERE", "").replace("TIMES", ""),
    "of an object, with a number of its method": OBJECT.replace("HERE", "scale = 2.0\n\n        ").replace(
        "TIMES", " * scale"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_train_what_their_maker_was_given(name: str) -> None:
    text = START + ("" if "class Trainer" in PROGRAMS[name] else MAKER) + PROGRAMS[name]
    theirs, ours = both(text)
    assert not conversion(text).report.diagnostics
    assert ours["shown"] == pytest.approx(theirs["shown"], rel=1e-5)  # float32, over three steps


def test_a_function_of_a_method_that_needs_self_alone_is_a_method() -> None:
    written = conversion(START + OBJECT.replace("HERE", "").replace("TIMES", "")).text
    assert "    def _make_step(self):\n        return self.perform_step\n" in written
    assert "    # Trains on a batch.\n    def perform_step(self, x, y):\n" in written


REFUSED = {
    "made for two models of one class": """
a, b = net(), net()
first = make_step(a, nn.MSELoss(), torch.optim.SGD(a.parameters(), lr=0.1))
second = make_step(b, nn.MSELoss(), torch.optim.SGD(b.parameters(), lr=0.01))
print(first(x, y), second(x, y))
""",
    "made with two schedulers": """
def make(model, optimizer, scheduler):
    def step(x, y):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    return step


model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = make(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2))
second = make(model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))
print(first(x, y), second(x, y))
""",
    "kept in a dict": f"{ONE}steps = {{'train': step}}\nprint(steps['train'](x, y))\n",
    "of a model that is gone": """
def build():
    model = net()
    return make_step(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))


def main():
    step = build()
    print(step(x, y))


main()
""",
    "one of two": """
def make(model, loss_fn, optimizer, trains):
    def step(x, y):
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def measure(x, y):
        return loss_fn(model(x), y).item()

    if trains:
        return step
    return measure


model = net()
step = make(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1), True)
print(step(x, y))
""",
    "made by whoever is told": """
def call(make, *given):
    return make(*given)


model = net()
step = call(make_step, model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1))
print(step(x, y))
""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_called_where_its_state_is_not_at_hand_is_refused(name: str) -> None:
    found = {one.code for one in conversion(START + MAKER + REFUSED[name]).report.diagnostics}
    assert found & {"MIG404", "MIG401", "MIG306", "MIG302"}


PLAIN = """

class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def _make(self):
        def scaled(x):
            return self.factor * x

        return scaled


shown = Scaled(2.0)._make()(3.0)
"""


def test_a_class_that_works_on_no_models_stays_as_it_is() -> None:
    assert PLAIN.strip() in conversion(START + PLAIN).text

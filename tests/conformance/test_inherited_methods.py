"""Classes of the script's own that inherit from others whose objects have models: both frameworks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from migrate.rewriting import rewritten
from tests.conformance.test_objects_at_hand import NET
from tests.conformance.test_training_forms import EXACT, trained

HEAD = (
    "from abc import ABC, abstractmethod\n\n"
    + NET
    + """class Base(ABC):
    \"\"\"What trainers share.\"\"\"

    def __init__(self, net, lr=0.1, decay=0.0):
        super().__init__()
        self.net = net
        self.steps = 0
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=0.9, weight_decay=decay)

    @abstractmethod
    def error(self, x, y):
        pass

    def score(self, x, y):
        raise NotImplementedError("subclasses say how well they do")

    def before_step(self):
        pass

    def update(self, x, y):
        self.net.train()
        self.optimizer.zero_grad()
        loss = self.error(x, y)
        loss.backward()
        self.before_step()
        self.optimizer.step()
        self.steps += 1
        return loss.item()


losses = []
x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = torch.sin(torch.linspace(0, 5, 16)).reshape(8, 2)
model = Net()
"""
)
RUN = """
trainer = {}
for step in range(5):
    losses.append(trainer.update(x, y))
    losses.append(trainer.score(x, y))
losses.append(trainer.steps)
"""
SQUARED = """

class Squared(Base):
    def __init__(self, net, scale=2.0, **kwargs):
        super().__init__(net, **kwargs)
        self.scale = scale

    def error(self, x, y):
        return (self.net(x) - y).square().mean() * self.scale

    def score(self, x, y):
        self.net.eval()
        with torch.no_grad():
            return self.net(x).sum().item()

"""
FORMS = {
    "an abstract base": SQUARED + RUN.format("Squared(model, lr=0.05, decay=0.1)"),
    "a chain of three": SQUARED
    + """
class Faster(Squared):
    def __init__(self, *args, limit=1.0, **kwargs):
        super(Faster, self).__init__(*args, **kwargs)
        self.limit = limit

    def before_step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = min(self.limit, group["lr"] * 1.5)

    def update(self, *args):
        before = Squared.update(self, *args)
        return before + super().update(*args)


other = Net()
plain = Squared(other)
losses.append(plain.update(x, y))
"""
    + RUN.format("Faster(model, 3.0, limit=0.5, lr=0.02)"),
    "a base that is used itself": SQUARED
    + """
class Smooth(Squared):
    def error(self, x, y):
        return super().error(x, y) + (self.net(x) - y).abs().mean()


other = Net()
smooth = Smooth(other)
assert isinstance(smooth, Base)
losses.append(smooth.update(x, y))
losses.append(smooth.score(x, y))
"""
    + RUN.format("Squared(model)"),
    "parts that methods make, and subclasses add to": """
class Prepared(Base):
    def __init__(self, net):
        super().__init__(net)
        self.prepare()

    def prepare(self):
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)

    def error(self, x, y):
        return (self.net(x) - y).square().mean()

    def score(self, x, y):
        return self.optimizer.param_groups[0]["lr"]


class Scheduled(Prepared):
    def prepare(self):
        super().prepare()
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)

    def update(self, x, y):
        loss = super().update(x, y)
        self.scheduler.step()
        return loss


other = Net()
plain = Prepared(other)
for step in range(2):
    losses.append(plain.update(x, y))
"""
    + RUN.format("Scheduled(model)"),
    "two that differ in what their losses need": SQUARED
    + """
class Drawn(Base):
    def error(self, x, y):
        noise = torch.zeros_like(x) * torch.randn_like(x)
        return (self.net(x + noise) - y).square().mean()

    def score(self, x, y):
        return self.steps


other = Net()
drawn = Drawn(other, 0.3)
for step in range(3):
    losses.append(drawn.update(x, y) + drawn.score(x, y))
"""
    + RUN.format("Squared(model)"),
}


@pytest.mark.parametrize("form", FORMS)
def test_same_losses(form: str, float64: None) -> None:
    theirs, ours = trained(HEAD + FORMS[form])
    assert len(ours["losses"]) == len(theirs["losses"]) >= 5
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_methods_are_again_where_they_were() -> None:
    made = convert(parse("train.py", HEAD + FORMS["an abstract base"])).text
    base, derived = made.split("class Base")[1].split("class Squared(Base)")
    assert "def __init__(self, net, params, batch_stats, lr=0.1, decay=0.0):" in base
    assert "def update(self, x, y):" in base and "def update" not in derived
    assert "super().__init__(net, params, batch_stats, lr=lr, decay=decay)" in derived


@pytest.mark.parametrize("private", ["self.__steps = 0", "self.__count()"])
def test_names_that_python_changes_by_the_class_are_refused(private: str) -> None:
    text = HEAD.replace("self.steps = 0", private) + SQUARED + RUN.format("Squared(model)")
    assert convert(parse("train.py", text)).report.diagnostics


BASE_FILE = """import math
import os

import torch

SCALE = 2.0


def scaled(value):
    return value * SCALE


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=scaled(lr))

    def error(self, x, y):
        raise NotImplementedError

    def update(self, x, y):
        loss = self.error(x, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return math.sqrt(loss.item())
"""
TRAIN_FILE = """import torch
import torch.nn as nn

from core.base import Trainer


class Regression(Trainer):
    def __init__(self, model, lr=0.1):
        super().__init__(model, lr)
        self.criterion = nn.MSELoss()

    def error(self, x, y):
        return self.criterion(self.model(x), y)


torch.manual_seed(0)
trainer = Regression(nn.Linear(3, 1))
for step in range(5):
    print(trainer.update(torch.ones(4, 3), torch.zeros(4, 1)))
"""


def test_a_base_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "base.py").write_text(BASE_FILE)
    (tmp_path / "train.py").write_text(TRAIN_FILE)
    made = rewritten([str(tmp_path / "train.py")])
    assert not made.diagnostics
    files = {output.member.place: output.text or "" for output in made.conversion.outputs}
    assert "from core.base import scaled" in files["train.py"] and "import math" in files["train.py"]
    assert not any("import torch" in text for text in files.values())
    assert "def update" in files["train.py"] and "def update" not in files["core/base.py"]

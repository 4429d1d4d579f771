"""Functions, methods and classes that are given models of several classes."""

from __future__ import annotations

from pathlib import Path

from migrate.files.project import read_project
from migrate.pipeline import convert_project
from tests.conformance.rewritten import clean, conversion

NETS = """import torch
import torch.nn as nn


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 8)
        self.two = nn.Linear(8, 2)

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(self.norm(x))


"""
FIT = """def fit(net, x):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    opt.step()
    return loss.item()


"""
TRAINER = """class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(self, x):
        self.opt.zero_grad()
        loss = self.net(x).pow(2).mean()
        loss.backward()
        self.opt.step()
        return loss.item()


"""
X = "x = torch.ones(4, 3)\n"


def test_copies_that_come_out_alike_are_one() -> None:
    made = clean(NETS + FIT + X + "plain, deep = Plain(), Deep()\nprint(fit(plain, x))\nprint(fit(deep, x))\n").text
    assert made.count("def fit") == 1
    assert "fit(deep, deep_params, x)" in made


def test_a_class_with_other_state_has_its_own_copy() -> None:
    nets = "nets = [Plain(), Deep(), Normed()]\n"
    made = clean(NETS + FIT + X + nets + "for net in nets:\n    print(fit(net, x))\n").text
    assert made.count("def fit(") == made.count("def fit_normed(") == made.count("def fit") / 2 == 1


def test_trainers_of_several_classes() -> None:
    made = clean(NETS + TRAINER + X + "a, b = Trainer(Plain()), Trainer(Normed())\nprint(a.step(x), b.step(x))\n").text
    assert "class TrainerNormed:" in made
    alike = clean(NETS + TRAINER + X + "a, b = Trainer(Plain()), Trainer(Deep())\nprint(a.step(x), b.step(x))\n").text
    assert alike.count("class Trainer") == 1


def test_methods_of_the_same_name_stay_apart() -> None:
    methods = """class Runner:
    def run(self, net, x):
        net.train()
        return net(x).sum().item()


class Other:
    def run(self, net, x):
        net.eval()
        return net(x).sum().item()


"""
    calls = "plain, normed = Plain(), Normed()\nprint(Runner().run(plain, x), Runner().run(normed, x))\n"
    calls += "print(Other().run(plain, x), Other().run(normed, x))\n"
    made = clean(NETS + methods + X + calls).text
    assert made.count("mutated") and made.count("def run_normed") == 2


def test_copies_are_imported_where_their_original_is(tmp_path: Path) -> None:
    main = "import torch\nimport tools\nfrom nets import Normed, Plain\nfrom tools import fit\n" + X
    main += "plain, normed = Plain(), Normed()\nprint(fit(plain, x), fit(normed, x))\nprint(tools.fit(normed, x))\n"
    for name, text in {"nets": NETS, "tools": "import torch\n\n\n" + FIT, "main": main}.items():
        (tmp_path / f"{name}.py").write_text(text)
    project = convert_project(read_project([tmp_path / "main.py"]))
    assert project.report.exit_code == 0, project.report.as_text()
    made = next(one.text for one in project.outputs if "tools.fit" in (one.text or ""))
    assert made and "from tools import fit, fit_normed\n" in made and "tools.fit_normed(" in made


def test_one_call_with_several_is_a_loop_where_it_trains() -> None:
    made = clean(NETS + FIT + X + "nets = [Plain(), Normed()]\nprint([fit(net, x) for net in nets])\n").text
    assert "results.append(" in made


def test_one_call_with_several_is_refused() -> None:
    made = conversion(NETS + FIT + X + "nets = [Plain(), Normed()]\nprint(any(fit(net, x) for net in nets))\n")
    assert made.report.exit_code == 1

"""Models whose class is told as the script runs."""

from __future__ import annotations

from tests.conformance.rewritten import clean, conversion, executed

HEAD = """import sys

import torch
import torch.nn as nn


class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)

    def only_here(self, x):
        return self.fc(x).sum()


class B(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.norm(x))


kind = sys.argv[1]
x = torch.ones(16, 4)
"""
BRANCH = "if kind == 'a':\n    model = A()\nelse:\n    model = B()\n"
TRAINING = """opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    opt.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    opt.step()
"""


def test_weights_are_made_once_after_the_branch() -> None:
    made = clean(HEAD + BRANCH + TRAINING).text
    assert made.count("model.init(") == 1
    assert 'variables.get("batch_stats", {})' in made and "model.clone(training=True)" in made


def test_every_class_has_the_mode_that_one_needs() -> None:
    made = clean(HEAD + BRANCH + TRAINING).text
    assert made.partition("class A(")[2].partition("class B(")[0].count("training: bool = False") == 1


def test_the_manifest_has_every_class() -> None:
    assert {"A", "B"} <= {model.name for model in clean(HEAD + BRANCH + TRAINING).manifest.models}


def test_a_way_without_a_model_makes_none() -> None:
    made = clean(HEAD + BRANCH.replace("else", "elif kind == 'b'") + TRAINING).text
    assert made.count("    variables = model.init(") == 2


def test_a_model_that_is_there_already_keeps_its_weights() -> None:
    made = clean(HEAD + "model = A()\n" + TRAINING + "if kind == 'b':\n    model = B()\n" + TRAINING).text
    assert made.count("\nvariables = model.init(") == made.count("\n    variables = model.init(") == 1


def test_ways_to_choose() -> None:
    for chosen in (
        "model = A() if kind == 'a' else B()\n",
        "model = {'a': A, 'b': B}[kind]()\n",
        "models = {'a': A, 'b': B}\nmodel = models[kind]()\n",
        "def make(kind):\n    if kind == 'a':\n        return A()\n    return B()\n\n\nmodel = make(kind)\n",
    ):
        assert clean(HEAD + chosen + TRAINING).text.count("model.init(") == 1


def test_what_one_class_alone_has_is_refused() -> None:
    assert conversion(HEAD + BRANCH + TRAINING + "print(model.only_here(x))\n").report.exit_code == 1


def test_a_file_of_the_whole_model_is_one_of_its_weights() -> None:
    rest = "torch.save(model, 'model.pt')\nmodel = torch.load('model.pt')\nprint(model(x))\n"
    made = clean(HEAD + BRANCH + TRAINING + rest).text
    assert "serialization.to_bytes({" in made and "serialization.from_bytes(" in made


def test_a_call_that_not_each_class_takes_is_refused() -> None:
    with_state = HEAD.replace("return self.fc(self.norm(x))", "return self.fc(self.norm(x)), state")
    with_state = with_state.replace(
        "forward(self, x):\n        return self.fc(self.norm",
        "forward(self, x, state):\n        return self.fc(self.norm",
    )
    calls = "if kind == 'a':\n    y = model(x)\nelse:\n    y, _ = model(x, torch.zeros(1))\nprint(y)\n"
    assert clean(with_state + BRANCH + calls)  # the test tells the class
    other = calls.replace("kind == 'a'", "len(sys.argv) > 2")
    assert conversion(with_state + BRANCH + other).report.exit_code == 1


def test_classes_looked_up_by_name_are_called_alike() -> None:
    for made in ("globals()[kind]", "eval(kind)", "vars()[kind]"):
        for calls in (f"model = {made}()\n", f"cls = {made}\nmodel = cls()\n"):
            text = HEAD.replace("sys.argv[1]", '"B"') + calls + "y = model(x)\n"
            ours = executed(clean(text).text)
            assert ours["y"].shape == (16, 3)
            assert "norm" in ours["batch_stats"]
    clean(HEAD + "model = getattr(sys.modules[__name__], kind)()\nprint(model(x))\n")


def test_a_class_that_takes_more_is_not_meant() -> None:
    start = "class B(nn.Module):\n    def __init__(self"
    wider = HEAD.replace(f"{start})", f"{start}, n)")
    made = clean(wider + "model = globals()[kind]()\n" + TRAINING)
    assert "batch_stats" not in made.text.partition("kind = ")[2]


def test_models_without_a_class_are_no_choice() -> None:
    made = conversion(HEAD + BRANCH.replace("A()", "nn.Sequential(nn.Linear(4, 3))") + TRAINING)
    assert made.report.exit_code == 1


def test_another_model_may_be_given_initial_weights() -> None:
    fills = "def init(m):\n    if isinstance(m, nn.Conv1d):\n        nn.init.zeros_(m.bias)\n\n\n"
    other = "class C(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    other += "        self.conv = nn.Conv1d(1, 1, 1)\n"
    other += "\n    def forward(self, x):\n        return self.conv(x[:, None])[:, 0]\n\n\n"
    used = TRAINING.replace("model(x)", "model(c(x))")
    made = clean(HEAD + fills + other + BRANCH + "c = C()\nc.apply(init)\n" + used).text
    assert "bias_init=nn.initializers.zeros" in made
    assert made.index("c.init(") < made.index("model.init(")

"""Functions and classes whose name a file gives again further down, as notebooks and tutorials do, and names that the
output needs for something else."""

from __future__ import annotations

import numpy as np

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten

TWICE = """import torch
import torch.nn as nn
import torch.nn.functional as F

w = torch.linspace(-1, 1, 6).reshape(3, 2)
x = torch.linspace(-2, 3, 24).reshape(8, 3)
found = []


def model(x):
    return torch.tanh(x @ w)


def fit():
    for step in range(3):
        loss = model(x).pow(2).mean()
        found.append(loss.item())


fit()


def model(x):
    return (x @ w).relu()


def scaled(x, model=2):
    return x * model


found.append(scaled(model(x)).sum().item())


def fit(steps):
    return steps * found[-1]


found.append(fit(2))
"""


def test_each_definition_is_the_one_that_is_meant() -> None:
    text = TWICE.replace("loss = model(x).pow(2)", "loss = torch.tanh(x @ w).pow(2)")
    theirs, ours = rewritten.executed(text), rewritten.executed(rewritten.clean(text).text)
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-5)


def test_a_function_with_a_variable_of_its_own_name() -> None:
    text = TWICE.replace(
        "    for step in range(3):\n        loss = model(x)",
        "    fit = 2.0\n    for step in range(3):\n        loss = fit * model(x)",
    )
    made = rewritten.clean(text.replace("loss = fit * model(x)", "loss = fit * torch.tanh(x @ w)")).text
    assert "def fit_1(" in made and "\nfit_1()\n" in made and "    fit = 2.0\n" in made


def test_a_name_that_a_function_reads_stays() -> None:
    """`fit` may be called when `model` is another one."""
    made = convert(parse("train.py", TWICE))
    assert "model_1" not in made.text
    assert "def fit_1(" in made.text


CLASSES = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x):
        return self.lin(x)


first = Net()
print(first(torch.ones(1, 3)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 4)

    def forward(self, x):
        return self.lin(x).relu()


def build():
    return Net()


second = build()
print(second(torch.ones(1, 3)))
"""


def test_a_class_that_is_written_anew() -> None:
    made = rewritten.clean(CLASSES).text
    assert "class Net_1(nn.Module):" in made
    assert "first = Net_1()" in made
    assert "class Net(nn.Module):" in made
    ours = rewritten.executed(made)
    assert ours["first_params"]["lin"]["kernel"].shape == (3, 2)
    assert ours["second_params"]["lin"]["kernel"].shape == (3, 4)


def test_a_class_that_inherits_from_its_predecessor_keeps_the_name() -> None:
    text = CLASSES.replace(
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.lin = nn.Linear(3, 4)",
        "class Net(Net):\n    def extra(self):\n        return 1",
    )
    assert "Net_1" not in convert(parse("train.py", text)).text


def test_a_name_that_a_branch_gives_again_stays() -> None:
    """Below the branch it means the one or the other."""
    again = "def fit(steps):\n    return steps * found[-1]\n"
    text = TWICE.replace(again, "if len(found) > 100:\n    def fit(steps):\n        return steps\n")
    assert "fit_1" not in convert(parse("train.py", text)).text


OWN = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x):
        return self.lin(x)


def cross_entropy(p, q):
    return -(p * q.log()).sum()


model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-2, 3, 24).reshape(8, 3)
for step in range(3):
    optimizer.zero_grad()
    loss = criterion(model(x), torch.arange(8) % 2)
    loss.backward()
    optimizer.step()
found = [cross_entropy(torch.tensor([0.5, 0.5]), torch.tensor([0.2, 0.8])).item()]
"""


def test_a_name_that_the_output_needs() -> None:
    """torch's cross entropy is a function of the output; the script's own one is called otherwise."""
    made = rewritten.clean(OWN).text
    assert "def cross_entropy_(p, q):" in made
    assert "criterion = cross_entropy\n" in made
    np.testing.assert_allclose(rewritten.executed(made)["found"], rewritten.executed(OWN)["found"], rtol=1e-5)


def test_a_name_that_a_class_has_too() -> None:
    method = "    def cross_entropy(self, p):\n        return 2 * p\n\n\ndef cross_entropy"
    made = convert(parse("train.py", OWN.replace("\ndef cross_entropy", method, 1)))
    assert any("needs a function called cross_entropy" in one.message for one in made.report.diagnostics)


def test_a_name_that_is_a_keyword_somewhere_stays() -> None:
    made = convert(parse("train.py", OWN + "print(dict(cross_entropy=1))\n"))
    assert any("needs a function called cross_entropy" in one.message for one in made.report.diagnostics)


def test_a_function_that_is_written_anew_and_given_models_of_two_classes_each_time() -> None:
    """The calls of either definition are told apart, so that each class of models may have a copy."""
    nets = "".join(
        f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.{part} = {layer}\n\n"
        f"    def forward(self, x):\n        return self.{part}(x)\n\n\n"
        for name, part, layer in (("A", "fc", "nn.Linear(3, 2)"), ("B", "row", "nn.Sequential(nn.Linear(3, 2))"))
    )
    show = "def show(model, x):\n    model.eval()\n    with torch.no_grad():\n        print(SCALE * model(x))\n\n\n"
    calls = "a, b = A(), B()\nshow(a, torch.ones(1, 3))\nshow(b, torch.ones(1, 3))\n"
    again = show.replace("SCALE", "2") + "show(a, torch.ones(2, 3))\nshow(b, torch.ones(2, 3))\n"
    source = "import torch\nfrom torch import nn\n\n\n" + nets + show.replace("SCALE", "1") + calls + again
    conversion = convert(parse("x.py", source))
    assert not conversion.report.diagnostics, conversion.report.as_text()


UNPACKED = """import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)
        nn.init.constant_(self.fc.weight, 0.1)
        nn.init.constant_(self.fc.bias, 0.2)

    def forward(self, x):
        return torch.softmax(self.fc(x) * x, dim=1)


class Decoder(nn.Module):
    def __init__(self, n, attention):
        super().__init__()
        self.attention = attention
        self.scale = nn.Parameter(torch.ones(n))

    def forward(self, x):
        a = self.attention(x).unsqueeze(1)
        return a.squeeze(1) * self.scale * x


attention = Attention(4)
model = Decoder(4, attention)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 12).reshape(3, 4)
for _ in range(3):
    loss = model(x).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def explain(model, x):
    with torch.no_grad():
        return model(x).argmax(1), model.attention(x)


label, attention = explain(model, x)
"""


def test_a_part_of_a_model_whose_name_is_given_to_one_of_several_results() -> None:
    theirs, ours = rewritten.both(UNPACKED)
    np.testing.assert_allclose(ours["attention"], theirs["attention"].numpy(), rtol=1e-5)  # float32, three steps
    np.testing.assert_array_equal(ours["label"], theirs["label"].numpy())


def test_a_name_that_a_function_reads_stays_one() -> None:
    made = convert(parse("a.py", UNPACKED.replace("model.attention(x)\n", "attention(x)\n")))
    assert "attention_1" not in made.report.as_text() + str(made.text)

"""Layers that want channels last and modules of the script's own, which have them first, in the same places; classes
whose arguments have names of Flax's; classes and functions that are looked up by name."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))

    def forward(self, x):
        return x + self.main(x) * torch.linspace(0.1, 0.2, x.size(2))[:, None]


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


"""
IN_ONE_ROW = """class M(nn.Module):
    def __init__(self, repeat=2):
        super().__init__()
        layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()]
        for _ in range(repeat):
            layers.append(Block(4))
        layers.append(nn.ConvTranspose2d(4, 2, 2, stride=2))
        layers.append(nn.Tanh())
        self.main = nn.Sequential(*layers)

    def forward(self, x):
        return self.main(x) + torch.arange(2)[:, None, None]
"""
BEGINNING_WITH_A_BLOCK = """class M(nn.Module):
    def __init__(self, repeat=2):
        super().__init__()
        layers = []
        for _ in range(repeat):
            layers += [Block(3), nn.Conv2d(3, 3, 1)]
        self.main = nn.Sequential(*layers)

    def forward(self, x):
        return self.main(x)
"""
IN_ONE_ATTRIBUTE = """class Part(nn.Module):
    def __init__(self, planes, stride=1, option="A"):
        super().__init__()
        self.conv = nn.Conv2d(3, planes, 3, stride=stride, padding=1)
        self.shortcut = nn.Sequential()
        if planes != 3:
            if option == "A":
                self.shortcut = Lambda(lambda x: F.pad(x[:, :, ::2], (0, 0, 0, 0, 0, 1), "constant", 0))
            elif option == "B":
                self.shortcut = nn.Sequential(nn.Conv2d(3, planes, 1, stride=stride), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = self.conv(x)
        out += self.shortcut(x)
        return out


class M(nn.Module):
    def __init__(self, option="B"):
        super().__init__()
        self.part = Part(4, (2, 1), option)

    def forward(self, x):
        return self.part(x)
"""
DECONVOLVED = """def deconv(inputs, outputs, kernel_size, stride=2, padding=1, norm=True):
    layers = [nn.ConvTranspose2d(inputs, outputs, kernel_size, stride, padding, bias=False)]
    if norm:
        layers.append(nn.BatchNorm2d(outputs))
    return nn.Sequential(*layers)


class M(nn.Module):
    def __init__(self, k=4, more=1):
        super().__init__()
        self.first = deconv(3, 4, 4)
        self.second = deconv(4, 4, 3, norm=False)
        self.third = nn.ConvTranspose2d(4, 3, k, 2, 1, output_padding=more, dilation=2)
        self.last = nn.ConvTranspose2d(3, 3, (3, k - 1), 1, (1, 0))

    def forward(self, x):
        return self.last(torch.tanh(self.third(self.second(self.first(x)))))
"""
ONE_BY_ONE = """class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        x = (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class M(nn.Module):
    def __init__(self, widths=(4, 5, 6)):
        super().__init__()
        self.stages = nn.ModuleList()
        stem = nn.Sequential(nn.Conv2d(3, widths[0], 2, 2), Norm(widths[0]))
        self.stages.append(stem)
        for i in range(2):
            stage = nn.Sequential(Norm(widths[i]), nn.Conv2d(widths[i], widths[i + 1], 2, 2))
            self.stages.append(stage)

    def forward(self, x):
        for i in range(3):
            x = self.stages[i](x)
        return x
"""
FORMS = {
    "rows of a list that is called one by one": (ONE_BY_ONE, Sample("M()", (2, 3, 16, 16))),
    "transposed convolutions of sizes that the class is told": (DECONVOLVED, Sample("M()", (2, 3, 3, 2))),
    "in one row": (IN_ONE_ROW, Sample("M()", (2, 3, 4, 5))),
    "in one row that begins with one": (BEGINNING_WITH_A_BLOCK, Sample("M()", (2, 3, 4, 5))),
    "in one attribute": (IN_ONE_ATTRIBUTE, Sample("M()", (2, 3, 4, 5))),
}
NAMED = """import torch
import torch.nn as nn


class Body(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return self.fc(x)


def small(**kwargs):
    return Body(2, **kwargs)


def large(**kwargs):
    return Body(3, **kwargs)


model_dict = {"small": [small, 2], "large": [large, 3]}


class Net(nn.Module):
    def __init__(self, name="large", path=5):
        super().__init__()
        function, width = model_dict[name]
        self.path = path
        self.stem = nn.Linear(4, width)
        self.body = function()

    def forward(self, x):
        return self.body(self.stem(x)) * self.path


"""


@pytest.mark.parametrize("name", FORMS)
def test_the_same_from_the_same_weights(name: str, float64: None) -> None:
    text, sample = FORMS[name]
    assert_same(HEAD + text, sample)


def test_arguments_with_names_of_flax_get_others() -> None:
    text = NAMED + "net = Net(name='small')\ny = net(torch.ones(5, 4))\ntold = net.path\n"
    made = rewritten.fresh(text)
    assert [(one.code, one.message) for one in made.report.diagnostics] == [
        ("MIG510", "of Net: `name` is `name_`, `path` is `path_`")
    ]
    ours = rewritten.executed(made.text)
    assert ours["y"].shape == rewritten.executed(text)["y"].shape == (5, 2)
    assert ours["told"] == 5
    assert "net = Net(name_='small')" in made.text


def test_the_weights_of_such_a_class_are_torch_s(float64: None) -> None:
    assert_same(NAMED.replace("class Net", "class M"), Sample('M(name="small")', (3, 4)))


@pytest.mark.parametrize("call", ["Net(**{'name': 'small'})", "partial(Net, name='small')()"])
def test_arguments_that_cannot_be_followed_are_refused(call: str) -> None:
    text = "from functools import partial\n" + NAMED + f"net = {call}\nprint(net(torch.ones(5, 4)))\n"
    assert rewritten.conversion(text).report.exit_code == 1


def test_an_argument_that_a_subclass_hands_on_is_refused() -> None:
    sub = "class Sub(Net):\n    def __init__(self):\n        super().__init__(name='small')\n\n\n"
    text = NAMED + sub + "net = Sub()\nprint(net(torch.ones(5, 4)))\n"
    assert "every Flax module has a `name`" in rewritten.conversion(text).report.as_text()


def test_the_other_choice_of_an_attribute() -> None:
    text = HEAD + IN_ONE_ATTRIBUTE + 'net = M("A")\ny = net(torch.ones(2, 3, 4, 5))\n'
    assert rewritten.executed(rewritten.clean(text).text)["y"].shape == rewritten.executed(text)["y"].shape


@pytest.mark.parametrize("made", ["globals()[kind]()", "vars()[kind]()", "table[kind]()"])
def test_functions_that_make_models_are_looked_up(made: str) -> None:
    text = (
        NAMED + f'kind = "small"\ntable = {{"small": small, "large": large}}\nnet = {made}\ny = net(torch.ones(5, 2))\n'
    )
    assert rewritten.executed(rewritten.clean(text).text)["y"].shape == (5, 2)


def test_functions_that_make_no_model_stay_unknown() -> None:
    text = "import torch\n\n\ndef half(x):\n    return x / 2\n\n\ndef twice(x):\n    return 2 * x\n\n\n"
    text += 'name = "half"\ny = {"half": half, "twice": twice}[name](torch.ones(3))\n'
    made = rewritten.conversion(text)
    assert made.report.exit_code == 1 or float(rewritten.executed(made.text)["y"][0]) == 0.5

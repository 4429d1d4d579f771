"""Classes that inherit from containers and fill them, and dicts that are filled key by key: outputs, gradients, weights
and state in both frameworks, or a code."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
DENSE_BLOCK = """class Layer(nn.Module):
    def __init__(self, width, growth):
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, growth, 3, padding=1, bias=False)

    def forward(self, features):
        return self.conv(F.relu(self.norm(torch.cat(features, 1))))


class Block(nn.ModuleDict):
    def __init__(self, layers, width, growth):
        super().__init__()
        for i in range(layers):
            layer = Layer(width + i * growth, growth)
            self.add_module("denselayer%d" % (i + 1), layer)

    def forward(self, x):
        features = [x]
        for name, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class M(nn.Module):
    def __init__(self, counts=(2, 1)):
        super().__init__()
        self.features = nn.Sequential()
        width = 3
        for i, layers in enumerate(counts):
            block = Block(layers, width, 2)
            self.features.add_module("block%d" % (i + 1), block)
            width += 2 * layers
        self.features.add_module("norm", nn.BatchNorm2d(width))

    def forward(self, x):
        return self.features(x)
"""
LISTS = """class Appended(nn.ModuleList):
    def __init__(self, n):
        super().__init__()
        for i in range(n):
            self.append(nn.Linear(4, 4))
        self.scale = 0.5

    def forward(self, x):
        for number, layer in enumerate(self):
            x = layer(x) * self.scale + number
        return self[0](x) / len(self)


class Given(nn.ModuleList):
    # its layers come at once
    def __init__(self, n):
        super().__init__([nn.Linear(4, 4) for _ in range(n)])

    def forward(self, x):
        return sum(layer(x) for layer in self)


class M(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.one = Appended(n)
        self.other = Given(n)

    def forward(self, x):
        return self.other(torch.tanh(self.one(x)))
"""
STAGE = """class Stage(nn.Sequential):
    def __init__(self, width_in, width_out, depth, number):
        super().__init__()
        for i in range(depth):
            block = nn.Sequential(nn.Linear(width_in if i == 0 else width_out, width_out), nn.Tanh())
            self.add_module(f"block{number}-{i}", block)


class M(nn.Module):
    def __init__(self, widths=(5, 6)):
        super().__init__()
        self.first = Stage(4, widths[0], 2, 1)
        self.second = Stage(widths[0], widths[1], 1, 2)

    def forward(self, x):
        return self.second(self.first(x))
"""
BY_KEY = """class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.norm(x))


class M(nn.Module):
    def __init__(self, sizes=(3, 2, 4)):
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.heads = nn.ModuleDict()
        for classes in sizes:
            self.heads["of_" + "x" * classes] = Head(6, classes)
        self.steps = nn.ModuleDict()
        for i in range(len(sizes)):
            step = nn.Linear(6, 6)
            self.steps["step_{}".format(i)] = step

    def forward(self, x):
        x = self.body(x)
        for step in self.steps.values():
            x = torch.tanh(step(x))
        made = {name: head(x).pow(2).mean(1) for name, head in self.heads.items()}
        return torch.stack([made[name] for name in self.heads], 1)
"""
UPDATED = """from collections import OrderedDict


class M(nn.Module):
    def __init__(self, widths=(4, 5, 5), wide=True, classes=3):
        super().__init__()
        layers = OrderedDict()
        layers.update({"stem": nn.Conv2d(3, widths[0], 3, padding=1)})
        for number, (a, b) in enumerate(zip(widths[:-1], widths[1:])):
            layers.update({str(number + 1) + chr(number + 97): nn.Sequential(nn.Conv2d(a, b, 1), nn.BatchNorm2d(b))})
        if wide:
            layers.update({"top": nn.Conv2d(widths[-1], 6, 1)})
        self.features = nn.Sequential(layers)
        head = OrderedDict()
        head.update({"pool": nn.AdaptiveAvgPool2d(1)})
        head.update({"flat": nn.Flatten()})
        if classes > 2:
            head.update({"dropout": nn.Dropout(0.0)})
        head.update({"classifier": nn.Linear(6, classes)})
        self.head = nn.Sequential(head)

    def forward(self, x):
        return self.head(self.features(x))
"""
FORMS = {
    "rows that are updated, under branches and in loops": (UPDATED, Sample("M()", (2, 3, 6, 5))),
    "a dict of layers that it adds by name": (DENSE_BLOCK, Sample("M()", (2, 3, 5, 5))),
    "lists that are appended to, and given": (LISTS, Sample("M()", (3, 4))),
    "a row with numbers in names that are no identifiers": (STAGE, Sample("M()", (3, 4))),
    "dicts whose keys are told as the program runs": (
        BY_KEY,
        Sample("M()", (5, 4)),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_from_the_same_weights(name: str, float64: None) -> None:
    text, sample = FORMS[name]
    assert_same(HEAD + text, sample)


def test_loops_stay_loops_and_keys_that_are_not_known_are_named_in_the_manifest() -> None:
    made = rewritten.clean(HEAD + BY_KEY)
    assert "for classes in self.sizes:" in made.text
    torch = {leaf.torch for leaf in rewritten.model_weights(made).leaves}
    assert {"heads.{n0}.norm.running_var", "heads.{n0}.out.weight", "steps.step_{0}.weight"} <= torch


@pytest.mark.parametrize(
    ("made", "forward", "said"),
    [
        ("self.fc = nn.Linear(4, 4)", "for m in self: x = m(x)", "C inherits from nn.ModuleList, and has modules as"),
        ("self.append(nn.Tanh())", "x = run(self, x)", "C inherits from nn.ModuleList, and forward uses it as a whole"),
    ],
)
def test_what_is_refused(made: str, forward: str, said: str) -> None:
    head = f"class C(nn.ModuleList):\n    def __init__(self):\n        super().__init__()\n        {made}\n\n"
    found = rewritten.conversion(f"{HEAD}{head}    def forward(self, x):\n        {forward}\n        return x\n").report
    assert any(one.code == "MIG201" and one.message.startswith(said) for one in found.diagnostics), found.diagnostics


@pytest.mark.parametrize(
    "fill",
    [
        "for kind in (nn.Tanh, nn.ReLU): self.layers[kind.__name__] = kind()",
        "for n in range(2):\n            if n not in self.layers: self.layers[str(n)] = nn.Linear(4, 4)",
    ],
)
def test_dicts_that_are_filled_in_ways_that_are_not_followed_are_refused(fill: str) -> None:
    """Their weights would be missing in the manifest."""
    made = f"        self.layers = nn.ModuleDict()\n        {fill}\n\n"
    text = f"class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n{made}"
    text += "    def forward(self, x):\n        for layer in self.layers.values(): x = layer(x)\n        return x\n"
    found = rewritten.conversion(HEAD + text).report.diagnostics
    assert any(one.code == "MIG201" and "keys are not written out" in one.message for one in found), found


STATE = """
model = M(tuple(map(int, sys.argv[1:])))
print(model(torch.zeros(2, 4)))
for name, value in model.state_dict().items():
    print(name, value.shape)
"""


def test_a_state_dict_with_such_keys_is_refused() -> None:
    text = "import sys\n" + HEAD + BY_KEY.replace("BatchNorm1d", "LayerNorm") + STATE
    found = rewritten.conversion(text).report.diagnostics
    assert any(one.code == "MIG306" and "told as it is made" in one.message for one in found), found

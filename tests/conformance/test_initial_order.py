"""Initial weights that are given more than once: the last ones count, whoever gives them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

BLOCK = """class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        {given}

    def forward(self, x):
        return self.fc(x)
"""
NET = """class M(nn.Module):
    def __init__(self, n=4, filled=True):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(n, 3)
        nn.init.ones_(self.block.fc.bias)
        nn.init.ones_(self.head.bias)
        {given}

    def forward(self, x):
        return self.head(self.block(x))
"""
METHODS = {
    "fill": """
    def fill(self, m):
        if isinstance(m, nn.Linear):
            nn.init.constant_(m.weight, 0.1)
""",
    "walk": """
    def walk(self):
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.2)
                nn.init.zeros_(m.bias)
""",
    "own": """
    def own(self):
        nn.init.constant_(self.head.weight, 0.3)
        nn.init.constant_(self.head.bias, 0.4)
""",
}
IN_BLOCK = {
    "asks": "nn.init.zeros_(self.fc.weight)",
    "applies": "self.apply(self.fill)",
    "asks and applies": "nn.init.zeros_(self.fc.weight); self.apply(self.fill)",
    "applies and asks": "self.apply(self.fill); nn.init.zeros_(self.fc.weight)",
    "asks and scales": "nn.init.ones_(self.fc.weight); self.fc.weight.data.mul_(0.7); self.fc.weight.data.div_(2)",
    "applies and scales": "self.apply(self.fill); self.fc.weight.data.mul_(3)",
}
IN_NET = {
    "applies": "self.apply(self.fill)",
    "asks": "nn.init.constant_(self.head.weight, 0.5); nn.init.constant_(self.block.fc.weight, 0.6)",
    "asks and applies": "nn.init.zeros_(self.head.weight); nn.init.zeros_(self.block.fc.weight); self.apply(self.fill)",
    "applies and asks": "self.apply(self.fill); nn.init.ones_(self.head.weight); nn.init.ones_(self.block.fc.weight)",
    "asks and walks": "self.own(); self.walk()",
    "walks and asks": "self.walk(); self.own()",
    "asks and walks in a branch": "self.own()\n        if filled:\n            self.walk()",
    "walks and applies": "self.walk(); self.apply(self.fill)",
    "applies and walks": "self.apply(self.fill); self.walk()",
    "applies to a part": "self.head.apply(self.fill)",
    "applies to parts and asks": "self.block.apply(self.fill); self.head.apply(self.fill); self.own()",
    "asks and applies to parts": "self.own(); self.block.apply(self.fill); self.head.apply(self.fill)",
    "walks and scales": "self.walk(); self.head.weight.data.mul_(0.5); self.head.bias.data.mul_(0.0)",
    "scales and walks": "self.head.weight.data.mul_(n); self.head.bias.data.mul_(2.0); self.walk()",
}


def written(text: str, given: str) -> str:
    """A class with these initial weights, and the methods that they need."""
    return text.format(given=given) + "".join(method for name, method in METHODS.items() if f"self.{name}" in given)


def script(in_block: str, in_net: str) -> str:
    classes = written(BLOCK, IN_BLOCK[in_block]), written(NET, IN_NET[in_net])
    return "\n\n".join(["import torch\nimport torch.nn as nn", *classes, "model = M()\ny = model(torch.ones(2, 4))\n"])


PAIRS = [(in_block, in_net) for in_block in IN_BLOCK for in_net in IN_NET]
REFUSED = [(in_block, in_net) for in_block, in_net in PAIRS if "applies" in in_block and "branch" in in_net]


@pytest.mark.parametrize(("in_block", "in_net"), PAIRS)
def test_the_last_counts(in_block: str, in_net: str) -> None:
    source = script(in_block, in_net)
    if (in_block, in_net) in REFUSED:
        assert "MIG204" in rewritten.conversion(source).report.as_text()
        return
    expected = rewritten.executed(source)["y"].detach().numpy()
    found = np.asarray(rewritten.executed(rewritten.clean(source).text)["y"])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


ROW = """import torch
import torch.nn as nn


def fill(m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.3)
        m.bias.data.fill_(0.1)


class Net(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.row = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2)})
        nn.init.ones_(self.rest[0].weight)
        nn.init.zeros_(self.rest[0].bias)
        self.row.apply(fill)
        self.named.apply(fill)

    def forward(self, x):
        return self.named["a"](self.row(self.rest(x)))


net = Net()
y = net(torch.ones(2, 4))
"""


def test_the_layers_of_a_part() -> None:
    found = np.asarray(rewritten.executed(rewritten.clean(ROW).text)["y"])
    np.testing.assert_allclose(found, rewritten.executed(ROW)["y"].detach().numpy(), rtol=1e-6)


def test_layers_of_a_part_that_may_be_any_number_are_refused() -> None:
    text = ROW.replace("nn.Sequential(nn.Linear(4, 2))", "*[nn.Linear(4, 4) for _ in range(depth)], nn.Linear(4, 2)")
    found = rewritten.conversion(text).report.diagnostics
    assert [one.code for one in found] == ["MIG204"], found


def test_models_of_one_class_that_start_otherwise_are_refused() -> None:
    functions = "def {0}(m):\n    if isinstance(m, nn.Linear):\n        nn.init.constant_(m.weight, {1})\n"
    start = ["import torch\nimport torch.nn as nn", functions.format("low", 0.1), functions.format("high", 0.9)]
    net = NET.format(given="pass").replace("Block()", "nn.Linear(4, 4)").replace("block.fc", "block")
    models = "first = M()\nfirst.apply(low)\nother = M()\nother.apply(high)\n"
    text = "\n\n".join([*start, net, models])
    assert "starts from several values" in rewritten.conversion(text).report.as_text()

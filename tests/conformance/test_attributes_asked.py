"""Whether modules have attributes, and of which layers parts are: as torch says it, though Flax has them otherwise."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import Pair, example_inputs

HEAD = "import torch\nimport torch.nn as nn\n\n\n"
ATTRIBUTES = """class Inner(nn.Module):
    def __init__(self, width, deep=False):
        super().__init__()
        self.fc = nn.Linear(width, width)
        if deep:
            self.more = nn.Linear(width, width)

    def forward(self, x):
        x = self.fc(x)
        return self.more(x) if hasattr(self, "more") else x


class M(nn.Module):
    def __init__(self, width=4, first=2, scale=3.0, last=None):
        super().__init__()
        self.inner = Inner(width)
        self.deep = Inner(width, deep=True)
        self.layers = nn.ModuleList([nn.Linear(width, width), nn.Tanh()])
        if first:
            self.first = nn.Linear(width, width)
        self.last = nn.Linear(width, width) if last is not None else None

    def forward(self, x):
        for layer in self.layers:
            if hasattr(layer, "weight") and hasattr(layer, "in_features"):
                x = x + 1
            x = layer(x)
        if hasattr(self.inner, "more") or hasattr(self, "scale") or not hasattr(self.inner.fc, "bias"):
            x = x * 5
        if hasattr(self.deep, "more"):
            x = self.deep(x)
        if isinstance(self.last, nn.Linear):
            x = self.last(x)
        return self.inner(self.first(x) if hasattr(self, "first") else x)
"""


def test_the_same_from_the_same_weights(float64: None) -> None:
    pair = Pair(HEAD + ATTRIBUTES, rewritten.clean(HEAD + ATTRIBUTES), "float64")
    assert not pair.differing(example_inputs(Sample("M()", (3, 4)), "float64"), False)


FILLED = """class M(nn.Module):
    def __init__(self, width=4, stem=None, rep=1):
        super().__init__()
        self.stem = nn.Linear(width, width) if stem is None else nn.Sequential(nn.Linear(width, width), nn.Tanh())
        if rep is not None:
            self.pre = nn.Linear(width, width)
        self.fc = nn.Linear(width, 2)
        LINES

    def forward(self, x):
        x = self.stem(x)
        return self.fc(self.pre(x) if hasattr(self, "pre") else x)


net = M()
print(net(torch.ones(3, 4)))
"""
PARTS = """if hasattr(self, "pre") and isinstance(self.pre, nn.Linear):
            nn.init.ones_(self.pre.weight)
        if isinstance(self.stem, nn.Linear) and self.stem.bias is not None:
            nn.init.ones_(self.stem.bias)
        if isinstance(self.fc, nn.Conv2d):
            nn.init.ones_(self.fc.weight)
        elif isinstance(self.fc, nn.Linear):
            nn.init.zeros_(self.fc.bias)"""


def test_initial_weights_of_parts_that_may_be_there() -> None:
    text = rewritten.clean(HEAD + FILLED.replace("LINES", PARTS)).text
    stem, row = text.partition("self.stem_layer = ")[2].split("nn.Sequential", 1)
    assert "bias_init=nn.initializers.ones" in stem and "bias_init" not in row.partition("nn.tanh")[0]
    assert "kernel_init=nn.initializers.ones" in text.partition("self.pre = ")[2].partition("self.fc")[0]
    assert "bias_init=nn.initializers.zeros" in text.partition("self.fc = ")[2].partition("\n")[0]


@pytest.mark.parametrize(
    "test",
    ["self.pre is not None", "isinstance(self.stem, nn.Linear)", "hasattr(self, 'pre')", "self.stem.bias is not None"],
)
def test_a_test_of_another_part_is_refused(test: str) -> None:
    """It decides the weights of this one, which took them whatever it says."""
    made = rewritten.conversion(HEAD + FILLED.replace("LINES", f"if {test}:\n            nn.init.ones_(self.fc.bias)"))
    assert [one.code for one in made.report.diagnostics] == ["MIG204"]


HOST = """class M(nn.Module):
    def __init__(self, more=False):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        if more:
            self.more = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


net = M()
print(net(torch.ones(3, 4)))
print(3 if hasattr(net, "ASKED") else 4)
"""


def test_of_a_model_outside() -> None:
    """One that is not bound has no parts in Flax: the answer was no."""
    asked = {name: rewritten.conversion(HEAD + HOST.replace("ASKED", name)) for name in ("fc", "other", "more")}
    assert "print(3 if True else 4)" in asked["fc"].text
    assert "print(3 if False else 4)" in asked["other"].text
    assert [one.code for one in asked["more"].report.diagnostics] == ["MIG304"]

"""Changes of models that were missed: refused at their place."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import Conversion, convert

SCRIPT = """\
from functools import partial

import torch
import torch.nn as nn


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Block(nn.Module):
    def __init__(self, width, layer):
        super().__init__()
        self.layer = layer(width, width)

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.seq = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.scale = 2.0
        {made}

    def forward(self, x):
        return self.seq(self.fc(x)) * self.scale

    {method}


model = Net()
{after}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def rewritten(made: str = "", method: str = "", after: str = "") -> Conversion:
    return convert(parse("train.py", SCRIPT.format(made=made, method=method, after=after)))


@pytest.mark.parametrize(
    "method",
    [
        "def parameters(self, recurse=True):\n        return self.fc.parameters()",
        'def named_parameters(self):\n        return [(n, p) for n, p in super().named_parameters() if "fc" in n]',
        "def zero_grad(self, set_to_none=True):\n        pass",
        "def load_state_dict(self, weights):\n        return super().load_state_dict(weights, strict=False)",
    ],
)
def test_methods_that_torch_calls_itself(method: str) -> None:
    (found,) = rewritten(method=method).report.diagnostics
    assert found.code == "MIG201" and "is its own" in found.message


RESET = """def reset(self, width):
        self.fc = nn.Linear(width, 2)
        self.width = width

    @torch.jit.ignore
    def prune(self):
        self.seq = nn.Identity()
        self.reset(4)"""


def test_methods_that_change_a_module_and_that_nothing_calls() -> None:
    made = rewritten(method=RESET)
    assert [found.code for found in made.report.diagnostics] == ["MIG516", "MIG516"]
    assert made.text.count('raise NotImplementedError("MIG516') == 2 and "torch.jit" not in made.text


@pytest.mark.parametrize("after", ["model.prune()", 'getattr(model, "reset")(3)', "change = Net.reset"])
def test_methods_that_change_a_module_and_that_something_may_call(after: str) -> None:
    codes = {found.code for found in rewritten(method=RESET, after=after).report.diagnostics}
    assert codes - {"MIG516"}


def test_what_changes_older_checkpoints_is_told() -> None:
    made = rewritten(method="def _load_from_state_dict(self, weights, prefix, *args):\n        weights.pop(prefix)")
    assert [found.code for found in made.report.diagnostics] == ["MIG515"]
    assert "_load_from_state_dict" not in made.text


@pytest.mark.parametrize(
    "after",
    [
        "Net.forward = lambda self, x: self.fc(x)",
        'setattr(Net, "forward", lambda self, x: self.fc(x))',
        'vars(model)["scale"] = 3.0',
        "model.__dict__.update(scale=3.0)",
        'model._modules["seq"] = nn.Identity()',
        "del model.seq",
        "del model.seq[-1]",
        "model.scale *= 3.0",
        "model = nn.DataParallel(model)\nmodel.module.scale = 3.0",
        "nn.ReLU.forward = lambda self, x: torch.tanh(x)",
    ],
)
def test_changes_after_a_model_is_made(after: str) -> None:
    (found,) = rewritten(after=after).report.diagnostics
    assert found.code in ("MIG204", "MIG301")


@pytest.mark.parametrize(
    "made",
    [
        "self.fc.weight.register_hook(lambda gradient: gradient * 2)",
        "self.blocks = nn.ModuleList([Block(width, Scaled), Block(width, Block)])",
    ],
)
def test_what_a_constructor_changes(made: str) -> None:
    assert rewritten(made=made).report.diagnostics


def test_without_changes_nothing_is_refused() -> None:
    assert not rewritten().report.diagnostics

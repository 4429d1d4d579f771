"""Bad news well told: a loop that is not understood costs itself, and nothing else of its file."""

from __future__ import annotations

import ast
import re
from textwrap import indent

import pytest

from migrate.diagnostics import Severity
from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def score(x):
    return torch.softmax(x, dim=1)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 3), torch.zeros(4, dtype=torch.long)
"""
STEP = """\
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""

# what is odd about a loop: the loop, and the line that the output keeps in a comment
LOOPS = {
    "arguments of backward": (STEP.replace("backward()", "backward(inputs=[y])"), "loss.backward(inputs=[y])"),
    "outputs kept from turn to turn": (
        "kept = []\n\n"
        + STEP.replace("    loss = F", "    kept.insert(0, model(x))\n    loss = F").replace(
            "model(x), y)", "model(x), y) + sum(kept).mean()"
        ),
        "loss = F.cross_entropy(model(x), y) + sum(kept).mean()",
    ),
    "outputs kept by a function, in a list of another loop": (
        "saved = []\n\n\ndef act(x):\n    saved.append(model(x).mean())\n\n\n"
        + STEP.replace(
            "    loss = F",
            "    act(x)\n    kept = []\n    for out in saved:\n        kept.append(out * 2)\n    loss = F",
        ).replace("model(x), y)", "model(x), y) + sum(kept)"),
        "loss = F.cross_entropy(model(x), y) + sum(kept)",
    ),
    "effects inside the loss": (
        STEP.replace("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y).mul(int(input()))"),
        "loss = F.cross_entropy(model(x), y).mul(int(input()))",
    ),
    "a call that changes weights and may not be made": (
        "def run():\n" + indent(STEP, "    ") + "\n\nwhile run() or run():\n    pass\n",
        "while run() or run():",
    ),
    "a loss that depends on what leaves the loop": (
        STEP.replace(
            "    loss = F",
            "    out = model(x)\n    if epoch == 1:\n        out = model(x * 2)\n        break\n    loss = F",
        ).replace("model(x), y)", "out, y)"),
        "loss.backward()",
    ),
    "hooks on gradients": (STEP.replace("    loss.b", "    loss.register_hook(print)\n    loss.b"), "loss.backward()"),
    "a step that something else takes": (
        STEP.replace("optimizer.step()", "optimizer.step(odd=1)"),
        "optimizer.step(odd=1)",
    ),
    "a state dict that follows the model": (
        "saved = model.state_dict()\n" + STEP + "model.load_state_dict(saved)\n",
        "model.load_state_dict(saved)",
    ),
    "weights that follow the model": (
        "first = [p.data for p in model.parameters()]\n" + STEP + "print(len(first))\n",
        "print(len(first))",
    ),
    "weights of an earlier turn in a loss": (
        "first = model.fc.bias.clone()\n"
        + STEP.replace("model(x), y)", "model(x), y) + (model.fc.bias - first).square().sum()"),
        "loss = F.cross_entropy(model(x), y) + (model.fc.bias - first).square().sum()",
    ),
    "one of two models": (
        "other = Net()\nrates = torch.optim.SGD(other.parameters(), lr=0.1)\n"
        + STEP.replace("model(x), y)", "model(x), y) + F.cross_entropy(other(x), y)").replace(
            "    optimizer.step()", "    optimizer.step()\n    rates.step()\n    rates.zero_grad()"
        )
        + "chosen = model if loss.item() > 0.5 else other\nprint(chosen(x).sum().item())\n",
        "print(chosen(x).sum().item())",
    ),
    "a weight that is changed under a name": (
        STEP + "    weight, bias = model.parameters()\n    with torch.no_grad():\n        weight *= 0.9\n",
        "weight *= 0.9",
    ),
    "a callback that needs weights": (
        "def report():\n    print(model(x).sum().item())\n\n\nhooks = []\nhooks.append(report)\n" + STEP,
        "hooks.append(report)",
    ),
}


@pytest.mark.parametrize("odd", LOOPS)
def test_only_the_loop_is_lost(odd: str) -> None:
    loop, kept = LOOPS[odd]
    source = HEAD + loop + "print(score(torch.ones(1, 2)))\n"
    made = convert(parse("x.py", source))
    findings = [found for found in made.report.diagnostics if found.severity is not Severity.NOTE]
    assert findings, "a loop like this is understood by now: choose another"
    assert all(found.code not in ("MIG900", "MIG001") for found in findings)
    text = made.text
    ast.parse(text)
    assert f"# {kept}" in text
    assert re.search(rf'raise NotImplementedError\(\s*"{findings[0].code}', text)
    for converted in ("class Net(nn.Module):\n    def setup(self):", "nn.softmax(x, axis=1)", "optax.sgd(0.1)"):
        assert converted in text


def test_schedulers_in_a_dict_are_refused() -> None:
    """Torch makes each of them, and LinearLR sets the rate as it is made: the one that is taken is not all."""
    made = "model = nn.Linear(3, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    made += "scheduler = {'a': LinearLR(optimizer), 'b': StepLR(optimizer, 2)}['b']\nprint(model(torch.ones(2, 3)))\n"
    head = "import torch\nfrom torch import nn\nfrom torch.optim.lr_scheduler import LinearLR, StepLR\n\n"
    found = convert(parse("train.py", head + made)).report.diagnostics
    assert "a scheduler that has no name of its own" in [one.message for one in found]


@pytest.mark.parametrize("loss", ["model(x)[: n.item()].sum()", "model(x).sum() * torch.ones(n.item()).sum()"])
def test_numbers_that_jit_has_to_know_are_not_taken_before_the_step(loss: str) -> None:
    made = "model = nn.Linear(3, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nx = torch.ones(4, 3)\n"
    made += f"for n in torch.tensor([2, 3]):\n    loss = {loss}\n    optimizer.zero_grad()\n    loss.backward()\n"
    source = f"import torch\nfrom torch import nn\n\n{made}    optimizer.step()\n"
    assert "MIG401" in [one.code for one in convert(parse("train.py", source)).report.diagnostics]


BACKWARD = """import torch
from torch import nn
from engines import Engine

engine = Engine()
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 3)).square()
    GOING
    optimizer.step()
"""


@pytest.mark.parametrize(
    "going", ["engine.backward(loss)", "engine.backward(gradient=loss)", "engine.run.backward(loss)"]
)
def test_what_is_not_known_to_be_a_tensor_does_not_go_backward(going: str) -> None:
    """Engines of other packages are given the loss, where a tensor is given its gradient."""
    made = convert(parse("train.py", BACKWARD.replace("GOING", going)))
    assert ("MIG306", f".backward() of {going.partition('.backward')[0]}") in [
        (one.code, one.message) for one in made.report.diagnostics
    ]
    assert f"    {going}\n" in made.text and "stop_gradient" not in made.text


@pytest.mark.parametrize("given", ["torch.ones_like(loss)", "gradient=torch.ones(4, 1)", "loss.detach()"])
def test_a_tensor_goes_backward_from_a_gradient(given: str) -> None:
    made = convert(parse("train.py", BACKWARD.replace("GOING", f"loss.backward({given})")))
    assert not made.report.diagnostics and "value_and_grad" in made.text

"""Parts that a forward pass calls in training alone: their weights are made with the others, in eval mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from migrate import manifest as manifests
from migrate.files.source import parse
from migrate.pipeline import Conversion, convert
from parity.compare import compare_script

pytestmark = pytest.mark.usefixtures("runs_are_forked")

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.aux = Head()
        self.head = Head()

    def helped(self, x):
        return self.aux(x)

    def forward(self, x):
        x = self.stem(x)
        BODY


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.randn(8, 4), torch.randn(8, 3)
    model.train()
    out, aux = model(x)
    loss = F.mse_loss(out, y) + 0.3 * F.mse_loss(aux, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
model.eval()
print(model(torch.ones(2, 4)))
"""
PAIR = "return (self.head(x), aux) if self.training else self.head(x)"


def converted(*body: str) -> tuple[str, Conversion]:
    source = SCRIPT.replace("BODY", "\n        ".join(body))
    return source, convert(parse("net.py", source))


RETURNED = ("if self.training:", "    return self.head(x), self.aux(x)", "return self.head(x)")
HELPED = ("aux = None", "if self.aux is not None:", "    if self.training:", "        aux = self.helped(x)", PAIR)


@pytest.mark.parametrize("body", [RETURNED, HELPED])
def test_they_train(body: tuple[str, ...], tmp_path: Path) -> None:
    source, conversion = converted(*body)
    assert not conversion.report.diagnostics
    before, after, weights = (tmp_path / name for name in ("net.py", "net_jax.py", "weights.json"))
    before.write_text(source)
    after.write_text(conversion.text)
    weights.write_text(manifests.dumps(conversion.manifest))
    result = compare_script(before, after, weights, steps=2)
    assert result.exit_code == 0, (result.first_difference, result.errors)


@pytest.mark.parametrize(
    "body",
    [
        ("if not self.training:", "    return self.head(x)", "return self.head(x), self.aux(x)"),
        ("aux = self.aux(x) if self.aux is not None and self.training else None", PAIR),
        ("if not self.training:", "    aux = None", "else:", "    aux = self.helped(x)", PAIR),
    ],
)
def test_they_have_weights(body: tuple[str, ...]) -> None:
    conversion = converted(*body)[1]
    assert not conversion.report.diagnostics
    names: dict[str, Any] = {"__name__": __name__}
    exec(conversion.text.partition("model = Net()")[0], names)
    made = names["Net"]().init(jax.random.key(0), jnp.ones((2, 4)))
    assert made["params"].keys() == {"stem", "aux", "head"}
    assert made["batch_stats"].keys() == {"aux", "head"}
    outputs, _ = names["Net"](training=True).apply(made, jnp.ones((2, 4)), mutable=["batch_stats"])
    assert [one.shape for one in outputs] == [(2, 3)] * 2


def test_a_branch_that_others_do_not_need_stays() -> None:
    """Its parts have their weights from another call, or have none."""
    conversion = converted("aux = self.aux(x)", "if self.training:", "    aux = self.aux(2 * x)", PAIR)[1]
    assert "is_initializing" not in conversion.text.partition("class Net")[2]


def test_what_is_counted_in_such_a_branch_is_not_counted_yet() -> None:
    """A buffer that changes beside such a call keeps its first value while weights are made."""
    source = SCRIPT.replace("self.stem = ", 'self.register_buffer("seen", torch.zeros(()))\n        self.stem = ')
    body = ["aux = None", "if self.training:", "    aux = self.aux(x)", "    self.seen += 1", PAIR]
    text = convert(parse("net.py", source.replace("BODY", "\n        ".join(body)))).text
    assert "            if not self.is_initializing():\n                self.seen.value += 1" in text


def test_refused_where_an_outer_module_would_see_another_result() -> None:
    source = converted("if self.training:", "    return self.head(x), self.aux(x)", "return self.head(x)")[0]
    outer = "class Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
    outer += "    def forward(self, x):\n        return self.net(x)\n\n\ntorch.manual"
    found = convert(parse("net.py", source.replace("torch.manual", outer, 1))).report.diagnostics
    assert "Net calls self.aux in training alone, and returns there" in {one.message for one in found}

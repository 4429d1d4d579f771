"""What a step returns beside its loss: dicts, in the order of their keys, and dataclasses."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

HEAD = """from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

X, Y = torch.arange(24.0).reshape(8, 3) / 10, torch.arange(8) % 2


@dataclass
class Output:
    logits: torch.Tensor
    mean: torch.Tensor = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)
        nn.init.constant_(self.lin.weight, 0.2)
        nn.init.constant_(self.lin.bias, 0.05)

    def forward(self, x):
        out = self.lin(x)
        return RESULT


def losses_of(out, y):
    return {"zeta": F.cross_entropy(out, y), "alpha": out.pow(2).mean()}


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(0, 8, 4):
    out = net(X[i : i + 4])
"""
STEP = """    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DICTS = {
    "a display": '    losses = {"zeta": F.cross_entropy(out, Y[i : i + 4]), "alpha": out.pow(2).mean()}\n',
    "of a function": "    losses = losses_of(out, Y[i : i + 4])\n",
}
SHOWN = {
    "items": "    for name, value in losses.items():\n        print(name, round(value.item(), 3))\n",
    "values": "    zeta, alpha = losses.values()\n    print(round(zeta.item(), 3), round(alpha.item(), 3))\n",
    "keys": "    print(*losses.keys())\n",
}


def shown(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What a text prints, and what its rewrite does."""
    capsys.readouterr()
    rewritten.executed(text)
    theirs = capsys.readouterr().out
    rewritten.executed(rewritten.clean(text).text)
    return theirs, capsys.readouterr().out


@pytest.mark.parametrize("way", SHOWN)
@pytest.mark.parametrize("name", DICTS)
def test_keys_stay_in_order(name: str, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD.replace("RESULT", "out") + DICTS[name] + "    loss = sum(losses.values())\n" + STEP + SHOWN[way]
    theirs, ours = shown(text, capsys)
    assert ours == theirs


def test_dicts_that_are_read_by_key_stay_dicts() -> None:
    text = HEAD.replace("RESULT", "out") + DICTS["a display"] + '    loss = losses["zeta"] + losses["alpha"]\n' + STEP
    assert "OrderedDict" not in rewritten.clean(text + '    print(losses["zeta"].item())\n').text


def test_dataclasses_leave_jit(capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD.replace("RESULT", "Output(logits=out, mean=out.mean(0))")
    text += "    loss = F.cross_entropy(out.logits, Y[i : i + 4]) + out.mean.pow(2).sum()\n" + STEP
    text += "    print(round(loss.item(), 3), [round(one, 3) for one in out.mean.tolist()])\n"
    made = rewritten.clean(text).text
    assert "@jax.tree_util.register_dataclass\n@dataclass\nclass Output:" in made
    theirs, ours = shown(text, capsys)
    assert ours == theirs

"""What has no name: models that are called where they are made, `y = Net()(x)`, `nn.LayerNorm(4)(x)`, and the loss of a
step inside an expression."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

DATA = "x = torch.arange(12.0).reshape(3, 4)\n"

VALUES = {
    "a module of one's own": "y = Net()(x)\n",
    "in eval mode, in an expression": "y = 1 + Net().eval()(x).sum()\n",
    "placed": "y = Net().to('cpu')(x) * Net()(2 * x)\n",
    "a layer of torch's": "y = nn.LayerNorm(4)(x)\n",
    "with a state, in train mode": "y = nn.BatchNorm1d(4)(x)\n",
    "with a state, in eval mode": "y = nn.BatchNorm1d(4).eval()(x)\n",
    "without weights, which is a function": "y = nn.Softmax(dim=1)(x)\n",
    "a row of layers": "y = nn.Sequential(nn.ReLU(), nn.Flatten(0))(x - 5)\n",
    "a dropout that drops nothing": "y = nn.Dropout(0.5).eval()(x)\n",
    "in a function, in a loop, and returned": """def total():
    for i in range(2):
        z = Net()(x) + i
    return Net()(x) + z


y = total()
""",
    "in a lambda": "of = lambda v: Net()(v)\ny = of(x)\n",
    "two kinds of one name": "z = nn.Sequential(nn.ReLU())(x - 5)\ny = nn.Sequential(nn.LayerNorm(4))(x) + z\n",
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_torchs(name: str) -> None:
    theirs, ours = rewritten.both(rewritten.NET + DATA + VALUES[name])
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-6, atol=1e-6)  # sums of 4


def test_a_place_that_checks_the_shape() -> None:
    theirs, ours = rewritten.both(rewritten.NET + DATA + "assert Net()(x).shape == (3, 1)\nz = 3\n")
    assert theirs["z"] == ours["z"] == 3
    with pytest.raises(AssertionError):
        rewritten.both(rewritten.NET + DATA + "assert Net()(x).shape == (3, 2)\n")
    made = rewritten.clean(rewritten.NET + DATA + "assert Net()(x).shape == (3, 2)\n")
    with pytest.raises(AssertionError):
        rewritten.executed(made.text)


def test_a_dropout_drops_and_scales() -> None:
    theirs, ours = rewritten.both("import torch\nfrom torch import nn\n\ny = nn.Dropout(0.25)(torch.ones(1000))\n")
    for y in (theirs["y"].numpy(), np.asarray(ours["y"])):
        assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
        assert 150 < (y == 0).sum() < 350  # 250 are expected, of which 100 are seven standard deviations


@pytest.mark.parametrize(
    "place",
    [
        "z = [LAYER(x) for _ in range(2)]",
        "if LAYER(x).sum() > 0:\n    print(x)",
        "z = x if x.sum() > 100 else LAYER(x)",
        "for row in LAYER(x):\n    print(row)",
    ],
)
@pytest.mark.parametrize("layer", ["nn.Linear(4, 2)", "nn.Sequential(nn.ReLU())", "Net()", "nn.PReLU().eval()"])
def test_other_places_are_told(place: str, layer: str) -> None:
    """They are made again and again, or perhaps never: no line in front of the statement says so."""
    made = rewritten.conversion(rewritten.NET + DATA + place.replace("LAYER", layer) + "\n")
    found = [(one.code, one.message) for one in made.report.diagnostics]
    assert found == [("MIG301", f"{layer}: a model that has no name of its own")]


CLOSURE = """import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.LBFGS([w], lr=0.5)


def closure():
    optimizer.zero_grad()
    loss = ((w - 3) ** 2).sum()
    loss.backward()
    return loss


shown = []
for i in range(3):
    LINE
"""


@pytest.mark.parametrize(
    "line",
    [
        "shown.append(optimizer.step(closure).item())",
        "shown.append(float(optimizer.step(closure).detach()))",
        "shown.append((i, w, optimizer.step(closure))[-1].item())",
    ],
)
def test_the_loss_of_a_step_inside_an_expression(line: str) -> None:
    theirs, ours = rewritten.both(CLOSURE.replace("LINE", line))
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-5, atol=1e-10)  # near the minimum


def test_what_is_asked_before_the_step_stays_before_it() -> None:
    made = rewritten.conversion(CLOSURE.replace("LINE", "shown.append((w.sum().item(), optimizer.step(closure)))"))
    assert ("MIG401", "optimizer.step() here") in [(one.code, one.message) for one in made.report.diagnostics]

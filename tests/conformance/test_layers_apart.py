"""Layers of a model that is an nn.Sequential: gone through, counted and called outside of it, with its weights."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import both, conversion

TEXT = """import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
for layer in net:
    if isinstance(layer, nn.Linear):
        nn.init.constant_(layer.weight, 0.25)
        nn.init.constant_(layer.bias, 0.5)
x = torch.arange(8.0).reshape(2, 4) / 8


def up_to(model, x, last):
    for number, layer in enumerate(model):
        x = layer(x)
        if number == last:
            break
    return x


shown = [[float(len(net))]]
hidden = x
for layer in net:
    hidden = layer(hidden)
    shown.append(hidden.flatten().tolist())
hidden = x
for layer in net.children():
    hidden = layer(hidden)
    shown.append(hidden.flatten().tolist())
shown.append(up_to(net, x, 1).flatten().tolist())
shown.append(net[0](x).flatten().tolist())
named, hidden = {}, x
for name, layer in net.named_children():
    hidden = layer(hidden)
    named[name] = hidden.sum().item()
shown.append([named["0"], named["1"], named["2"]])
"""


def test_layers_are_those_with_the_weights_of_the_model() -> None:
    theirs, ours = both(TEXT)
    assert not conversion(TEXT).report.diagnostics
    for mine, torchs in zip(ours["shown"], theirs["shown"], strict=True):
        assert mine == pytest.approx(torchs, rel=1e-6)  # float32


CONVOLUTIONS = "net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())"
DROPOUT = "net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))"
CLASS = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return self.fc(x)


net = Net()"""


@pytest.mark.parametrize("made", [CONVOLUTIONS, DROPOUT, CLASS])
@pytest.mark.parametrize("asked", ["for one in net.children():\n    print(one)", "print(len(list(net.children())))"])
def test_layers_that_cannot_be_called_alone_need_a_person(made: str, asked: str) -> None:
    text = f"import torch\nfrom torch import nn\n\n{made}\nx = torch.ones(2, 3, 8, 8)\n{asked}\n"
    assert "MIG301" in {found.code for found in conversion(text).report.diagnostics}


@pytest.mark.parametrize(
    "asked", ["for one in net:\n    print(one.weight)", "print(net[1].weight)", "print(net[0].scale)"]
)
def test_what_a_layer_has_needs_a_person(asked: str) -> None:
    made = "net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())\nx = net(torch.ones(2, 3))"
    text = f"import torch\nfrom torch import nn\n\n{made}\n{asked}\n"
    assert "MIG301" in {found.code for found in conversion(text).report.diagnostics}


LEAF = """import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Sequential(nn.Linear(4, 2), nn.Tanh())
for p in net.parameters():
    p.requires_grad_(False)
net.to(device)
content = (torch.arange(8.0).reshape(2, 4) / 8).to(device)
target = content.clone().requires_grad_(True).to(device)
optimizer = torch.optim.SGD([target], lr=0.5)
losses = []
for step in range(4):
    loss = (target - 1).square().mean() + 0 * net(target).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
kept = content.sum().item()
"""


def test_a_leaf_that_is_placed_is_trained() -> None:
    theirs, ours = both(LEAF)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32, of four steps
    assert ours["kept"] == theirs["kept"]


NAMED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)
        nn.init.constant_(self.fc.weight, 0.25)
        nn.init.constant_(self.fc.bias, 0.5)

    def forward(self, x):
        return self.fc(x)


model = MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
layer = PART
before = layer.weight[0, 1].item()
loss = model(torch.ones(2, 3)).sum()
loss.backward()
optimizer.step()
shown = [before, layer.weight[:, 0].item(), layer.bias.item()]
"""
ROW = "nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))\nnn.init.ones_(model[0].weight)\nnn.init.zeros_(model[0].bias)"


@pytest.mark.parametrize(("model", "part"), [("Net()", "model.fc"), (ROW, "model[0]")])
def test_a_layer_that_has_a_name_has_the_weights_of_its_model(model: str, part: str) -> None:
    text = NAMED.replace("MODEL", model).replace("PART", part)
    theirs, ours = both(text)
    assert ours["shown"] == pytest.approx(theirs["shown"], rel=1e-6)  # float32


@pytest.mark.parametrize(
    "more",
    [
        "layer = None\n",
        "def f():\n    return layer\n",
        "layer.weight = None\n",
        "print(layer.in_features)\n",
        "model.fc = nn.Linear(3, 1)\n",
    ],
)
def test_a_layer_that_is_more_than_its_weights_keeps_its_name(more: str) -> None:
    text = NAMED.replace("MODEL", "Net()").replace("PART", "model.fc") + more
    assert {found.code for found in conversion(text).report.diagnostics} & {"MIG301", "MIG303", "MIG204"}
    assert "MIG305" not in {found.code for found in conversion(text).report.diagnostics}

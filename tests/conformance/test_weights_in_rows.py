"""Weights of layers in lists of any length: read and set by their numbers, gone through, frozen and grouped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.rewritten import both, clean, conversion

# the weights are set to the same numbers on both sides, by the numbers of the blocks
MODEL = """import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width))
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x + self.gain * self.inner(x)


class Net(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = LIST
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def assign(left, right):
    if left.shape != right.shape:
        raise ValueError(f"{left.shape} and {right.shape}")
    return nn.Parameter(torch.tensor(right))


def draw(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def load(model, count):
    rng = np.random.default_rng(0)
    for b in range(count):
        model.blocks[b].inner[0].weight = assign(model.blocks[b].inner[0].weight, draw(rng, 6, 3))
        model.blocks[b].inner[0].bias = assign(model.blocks[b].inner[0].bias, draw(rng, 6))
        model.blocks[b].inner[2].weight = assign(model.blocks[b].inner[2].weight, draw(rng, 6, 3).T)
        model.blocks[b].inner[2].bias.data = torch.from_numpy(draw(rng, 3))
        model.blocks[b].gain = assign(model.blocks[b].gain, draw(rng, 3))
    model.head.weight = assign(model.head.weight, draw(rng, 2, 3))
    model.head.bias = assign(model.head.bias, draw(rng, 2))


net = Net(3, 4)
load(net, 4)
x = torch.arange(18.0).reshape(6, 3) / 9 - 1
y = torch.tensor([0, 1, 1, 0, 1, 0])
"""
LISTS = (
    "nn.ModuleList([Block(width) for _ in range(blocks)])",
    "nn.Sequential(*[Block(width) for _ in range(blocks)])",
)
TRAINING = """
losses = []
for step in range(4):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
kept = [block.inner[0].weight.sum().item() for block in net.blocks]
kept += [block.inner[2].bias.sum().item() for block in net.blocks]
"""
CLOSE = 1e-5  # float32, four steps


def model(row: str = LISTS[0]) -> str:
    return MODEL.replace("LIST", row)


def same(theirs: dict[str, Any], ours: dict[str, Any], *names: str) -> None:
    for name in names:
        assert ours[name] == pytest.approx(theirs[name], rel=CLOSE), name


@pytest.mark.parametrize("row", LISTS)
def test_weights_are_set_and_read_by_the_numbers_of_their_layers(row: str) -> None:
    text = model(row) + (
        "out = net(x).flatten().tolist()\n"
        "told = [net.blocks[i].gain[1].item() for i in range(len(net.blocks))]\n"
        "told += [net.blocks[2].inner[0].weight[1, 2].item(), float(net.blocks[0].inner[2].weight.shape[1])]\n"
        "for number, block in enumerate(net.blocks):\n"
        "    told.append(number * block.inner[0].weight.norm().item())\n"
        "    told += [float(block.inner[0].weight.size(0)), float(block.inner[2].weight.numel())]\n"
        "    told.append(block.inner[2].weight.detach().numpy()[0, 3].item())\n"
    )
    theirs, ours = both(text)
    same(theirs, ours, "out", "told")


def test_a_number_may_have_a_name() -> None:
    text = model() + (
        "other = Net(3, 2)\nlast = 1\nother.blocks[last].gain.data = torch.tensor([1.0, 2.0, 3.0])\n"
        "out = other(x)\ntold = other.blocks[last].gain.tolist()\nnet(x)\n"
    )
    theirs, ours = both(text)
    assert ours["told"] == theirs["told"] == [1.0, 2.0, 3.0]


def test_a_loss_goes_through_the_layers() -> None:
    extra = "    for block in net.blocks:\n        loss = loss + 0.01 * block.inner[0].weight.pow(2).sum()\n"
    step = TRAINING.replace("    optimizer.zero", f"{extra}    optimizer.zero")
    theirs, ours = both(model() + "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)" + step)
    same(theirs, ours, "losses", "kept")


FROZEN = {
    "all but the last": "for p in net.parameters():\n    p.requires_grad = False\n"
    "for p in net.blocks[-1].parameters():\n    p.requires_grad = True\n",
    "the first": "net.blocks[0].requires_grad_(False)\n",
    "part of the last but one": "for p in net.blocks[-2].inner.parameters():\n    p.requires_grad = False\n",
    "all but the last two": "for p in net.parameters():\n    p.requires_grad = False\n"
    "for block in net.blocks[-2:]:\n    for p in block.parameters():\n        p.requires_grad = True\n",
    "the first three": "for block in net.blocks[:3]:\n    for p in block.parameters():\n"
    "        p.requires_grad = False\n",
    "the first by number": "for i in range(2):\n    for p in net.blocks[i].parameters():\n"
    "        p.requires_grad = False\n",
}


@pytest.mark.parametrize("row", LISTS)
@pytest.mark.parametrize("frozen", FROZEN)
def test_layers_are_frozen_by_their_numbers(frozen: str, row: str) -> None:
    counted = "count = sum(p.numel() for p in net.parameters() if p.requires_grad)\n"
    made = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1)"
    theirs, ours = both(model(row) + FROZEN[frozen] + counted + made + TRAINING)
    assert ours["count"] == theirs["count"]
    same(theirs, ours, "losses", "kept")


def test_layers_have_a_group_of_their_own() -> None:
    groups = '[{"params": net.blocks[-1].parameters(), "lr": 0.5}, {"params": net.head.parameters()}]'
    theirs, ours = both(model() + f"optimizer = torch.optim.SGD({groups}, lr=0.1)" + TRAINING)
    same(theirs, ours, "losses", "kept")


def test_numbers_from_both_ends_are_refused() -> None:
    both_ends = "net.blocks[0].requires_grad_(False)\nnet.blocks[-1].requires_grad_(False)\n"
    made = conversion(model() + both_ends + "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)" + TRAINING)
    assert "from its beginning and from its end" in made.report.as_text()


@pytest.mark.parametrize("use", ["print(block)", "block(x)", "shown.append(block)", "print(block.inner)"])
def test_a_layer_of_a_list_is_its_weights_alone(use: str) -> None:
    made = conversion(model() + f"shown = []\nfor block in net.blocks:\n    {use}\n")
    assert "a layer of a list, of which Flax has the weights alone" in made.report.as_text()


def test_weights_that_a_loop_changes_are_refused() -> None:
    made = conversion(model() + "for block in net.blocks:\n    block.gain.data.zero_()\n")
    assert "MIG204" in made.report.as_text()


def test_functions_that_are_given_a_model_read_its_layers() -> None:
    text = model() + (
        "def export(model, path):\n"
        "    total = [layer.gain.sum().item() for layer in model.blocks]\n"
        "    total.append(float(model.blocks[0].inner[0].weight.shape[0]))\n"
        "    return total\n"
        "told = export(net, 'x')\nout = net(x)\n"
    )
    theirs, ours = both(text)
    same(theirs, ours, "told")


def test_a_function_that_is_given_what_nothing_is_known_of_beside_a_model() -> None:
    text = model() + (
        "def export(model):\n    return model.head.weight.sum().item()\n"
        "import pickle\n"
        "out = net(x)\ntold = export(net)\nother = export(pickle.loads(b''))\n"
    )
    told = conversion(text).report.as_text()
    assert "export() takes a model, or an optimizer, for model: nothing is known of pickle.loads(b'')" in told
    assert "told = export(net, params)" in conversion(text).text


def test_a_tied_weight_is_read_as_the_one_that_it_is() -> None:
    text = """import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.table.weight = self.out.weight
    def forward(self, x):
        return self.out(self.table(x))
net = Net()
y = net(torch.tensor([1, 2]))
same = torch.equal(net.table.weight, net.out.weight)
shape = list(net.out.weight.shape)
"""
    theirs, ours = both(text)
    assert bool(ours["same"]) is theirs["same"] is True
    assert list(ours["shape"]) == list(theirs["shape"])
    assert "with_weight" not in clean(text).text

"""Graphs of PyG: what a model is given of them, masks of nodes, pooling, loaders; trained in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_geometric.nn as gnn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, GINConv, SAGEConv, global_mean_pool

losses = []


def graph(number):
    nodes = torch.arange(4 + number % 3)
    edges = torch.stack([nodes, (nodes * 2 + number) % len(nodes)])
    x = torch.stack([nodes.float().sin(), nodes.float() / 4], dim=1)
    return Data(x=x, edge_index=edges, y=torch.tensor([number % 2]))


"""
NODES = """data = graph(2)
data.y = torch.tensor([0, 1, 1, 0, 1, 0])
data.train_mask = torch.tensor([True, True, False, True, False, True])
data.test_mask = ~data.train_mask


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(2, 3)
        self.conv2 = SAGEConv(3, 2)

    FORWARD


net = Net()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.full_like(p, 0.3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
for epoch in range(3):
    net.train()
    optimizer.zero_grad()
    out = GIVEN
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
net.eval()
out = GIVEN
for _, mask in data("train_mask", "test_mask"):
    losses.append(int((out[mask].argmax(1) == data.y[mask]).sum()) / int(mask.sum()))
losses.append(float(out.detach().sum()))
"""
COMPUTED = """
        x = F.relu(self.conv1(x, edge_index))
        return self.conv2(x, edge_index)
"""
# what the forward pass takes -> how it is called
FORWARDS = {
    f"def forward(self, x, edge_index):{COMPUTED}": "net(data.x, data.edge_index)",
    f"def forward(self, data):\n        x, edge_index = data.x, data.edge_index{COMPUTED}": "net(data)",
    f"def forward(self, g):\n        x = g.x * 1.5\n        edge_index = g.edge_index{COMPUTED}": "net(data)",
    f"def forward(self):\n        x, edge_index = data.x, data.edge_index{COMPUTED}": "net()",
    f"def forward(self, edge_index, data):\n        x = data.x{COMPUTED}": "net(data.edge_index, data=data)",
}


def same(script: str) -> dict[str, object]:
    theirs, ours = rewritten.both(script)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, some steps
    return ours


@pytest.mark.parametrize("forward", FORWARDS)
def test_nodes_of_one_graph(forward: str) -> None:
    same(HEAD + NODES.replace("FORWARD", forward).replace("GIVEN", FORWARDS[forward]))


GRAPHS = """loader = DataLoader([graph(number) for number in range(6)], batch_size=2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.conv = GINConv(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), eps=0.5)
        self.head = gnn.MLP([3, 4, 2], norm=None)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index)
        return self.head(global_mean_pool(x, batch))


net = Net()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.full_like(p, 0.3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
for epoch in range(2):
    for data in loader:
        optimizer.zero_grad()
        out = net(data.x, data.edge_index, data.batch)
        loss = F.cross_entropy(out, data.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() * data.num_graphs)
"""


def test_pooling_of_graphs() -> None:
    same(HEAD + GRAPHS)


def test_a_graph_that_stays_is_made_arrays_once() -> None:
    """Behind the last line that binds it, which may say nothing in JAX; not where something of it is set or changed."""
    forward, call = next(iter(FORWARDS.items()))
    script = HEAD + NODES.replace("FORWARD", forward).replace("GIVEN", call)
    made, _, fields = script.partition("data.y =")
    set_first = made.replace("data = graph(2)\n", "") + "made = graph(2)\nmade.y =" + fields
    kept = set_first.replace("data.train_mask =", "made.train_mask =", 1).replace(
        "data.test_mask =", "made.test_mask =", 1
    )
    kept = kept.replace("~data.train_mask\n", "~made.train_mask\ndata = made\ndata = data.to('cpu')\n", 1)
    assert 'data_arrays = arrays_of(data, "x", "edge_index", "y", "train_mask"' in rewritten.conversion(kept).text
    same(kept)
    assert "arrays_of" not in rewritten.conversion(script).text  # something of it is set


def codes(script: str) -> list[str]:
    return [found.code for found in rewritten.conversion(script).report.diagnostics]


def test_sizes_of_graphs_are_told() -> None:
    """Batches that come again compile as often as there are of them; others at each step."""
    assert codes(HEAD + GRAPHS) == ["MIG501"]
    assert codes(HEAD + GRAPHS.replace("batch_size=2", "batch_size=2, shuffle=True")) == ["MIG405"]


def test_seeds_of_constructors() -> None:
    """Flax runs `setup` in each forward pass: a seed there would be set again and again."""
    made = rewritten.conversion(HEAD + GRAPHS).text
    assert made.count("torch.manual_seed(1)") == 1 and "\ntorch.manual_seed(1)\n" in made
    assert "MIG302" in codes((HEAD + GRAPHS).replace("torch.manual_seed(1)", "torch.manual_seed(len(losses))"))


def test_graphs_inside_of_modules() -> None:
    """A part that is given the graph itself keeps it, with a finding: nothing is changed by halves."""
    forward, _ = list(FORWARDS.items())[1]
    whole = "class Whole(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
    script = HEAD + NODES.replace("FORWARD", forward).replace("GIVEN", "whole(data)")
    script = script.replace(
        "net = Net()\n",
        f"{whole}    def forward(self, data):\n        return self.net(data)\n\n\nwhole = Whole()\nnet = Net()\n",
        1,
    )
    assert set(codes(script.replace("net.parameters()", "whole.parameters()"))) & {"MIG301", "MIG306"}


@pytest.mark.parametrize(
    ("given", "code"),
    [("data.x, data.adj_t", "MIG302"), ("gnn.ChebConv(2, 2, 2)(data.x, data.edge_index), data.edge_index", "MIG301")],
)
def test_what_is_declined(given: str, code: str) -> None:
    forward, call = next(iter(FORWARDS.items()))
    script = HEAD + NODES.replace("FORWARD", forward).replace("GIVEN", call.replace("data.x, data.edge_index", given))
    assert code in codes(script)

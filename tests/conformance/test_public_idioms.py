"""Ways to write that many public scripts share: each trains a model that starts from constants, in both frameworks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from migrate.snippets.largest import largest
from migrate.snippets.selected import selected
from tests.conformance import rewritten

HEAD = """import random
from functools import partial
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

x, y = torch.linspace(-1, 1, 24).reshape(8, 3).sin(), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
loader = DataLoader(TensorDataset(x, y), batch_size=4)
losses = []


"""
PLAIN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.fc2 = nn.Linear(4, 3)
        nn.init.constant_(self.fc1.weight, 0.3)
        nn.init.constant_(self.fc1.bias, 0.1)
        nn.init.constant_(self.fc2.weight, -0.2)
        nn.init.constant_(self.fc2.bias, 0.1)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x * torch.tensor([1.0, 2.0, 3.0]))))

net = Net()
"""
TRAIN = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss = LOSS
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def trained(before: str, loss: str, after: str = "") -> str:
    return HEAD + before + TRAIN.replace("LOSS", loss) + after


def layers(init: str, call: str = "self.net(x)", takes: str = "self") -> str:
    """A class whose parts its constructor makes, each starting from constants."""
    head = f"class Net(nn.Module):\n    def __init__({takes}):\n        super().__init__()\n"
    return f"{head}{init}\n    def forward(self, x):\n        return {call}\n\n"


FILL = """
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.3)
                nn.init.constant_(m.bias, 0.1)
"""
FORMS = {
    "a list that a call makes": trained(
        layers(
            "        parts = list()\n        for width in (4, 3):\n"
            "            parts.append(nn.Linear(3 if width == 4 else 4, width))\n            parts.append(nn.Tanh())\n"
            "        self.net = nn.Sequential(*parts)" + FILL
        )
        + "net = Net()\n",
        "F.cross_entropy(net(a), b)",
    ),
    "commas behind calls": trained(
        layers("        self.add_module('net', nn.Linear(3, 3)),\n        nn.init.constant_(self.net.weight, 0.3),\n"
               "        nn.init.constant_(self.net.bias, 0.1),")
        + "net = Net()\n",
        "F.cross_entropy(net(a), b)",
    ),
    "several attributes at once": trained(
        layers("        self.eps, self.scale = 0.5, nn.Parameter(torch.full((3,), 0.7))", "x * self.scale + self.eps")
        + "net = Net()\n",
        "F.cross_entropy(net(a), b)",
    ),
    "keywords handed to a method": trained(
        layers(
            "        self.width = width\n        self.net = self._made(**kwargs)\n" + FILL
            + "\n    def _made(self, outputs, slope=0.2):\n"
            "        first, last = nn.Linear(3, self.width), nn.Linear(self.width, outputs)\n"
            "        return nn.Sequential(first, nn.LeakyReLU(slope), last)",
            takes="self, width=4, **kwargs",
        )
        + "net = Net(outputs=3)\n",
        "F.cross_entropy(net(a), b)",
    ),
    "a list of the file's that is looked into": trained(
        "PARTS = [(3, 4), 'act', [(4, 4), 2], (4, 3)]\n"
        + layers(
            "        self.parts = PARTS\n        self.net = self._made(self.parts)\n" + FILL
            + "\n    def _made(self, parts):\n        made = []\n        for part in parts:\n"
            "            if type(part) == tuple:\n                made += [nn.Linear(part[0], part[1])]\n"
            "            elif type(part) == str:\n                made += [nn.Tanh()]\n"
            "            elif type(part) == list:\n                sizes, times = part\n"
            "                for _ in range(times):\n                    made += [nn.Linear(sizes[0], sizes[1])]\n"
            "        return nn.Sequential(*made)"
        )
        + "net = Net()\n",
        "F.cross_entropy(net(a), b)",
    ),
    "settings with lists": trained(
        "CONFIG = {'widths': [4, 5], 'rate': 0.0}\n"
        + layers(
            "        self.first = nn.Linear(3, cfg['widths'][0])\n"
            "        self.net = nn.ModuleList([nn.Linear(4, 3) for _ in cfg['widths']])\n"
            "        self.drop = nn.Dropout(cfg['rate'])" + FILL,
            "sum(part(self.drop(self.first(x))) for part in self.net)",
            "self, cfg",
        )
        + "net = Net(CONFIG)\n",
        "F.cross_entropy(net(a), b)",
    ),
    "settings that are arrays of an object's": trained(
        "class Data:\n    def __init__(self):\n        self.dims = np.array([1, 2])\n\n"
        + layers(
            "        self.first = nn.Linear(sum(dims), len(dims) + 1)\n        self.drop = nn.Dropout(0.0)" + FILL,
            "self.drop(self.first(x))",
            "self, dims",
        )
        + "data = Data()\nnet = Net(data.dims)\n",
        "F.cross_entropy(net(a), b)",
    ),
    "a part that is another one where it is told": trained(
        "class Base(nn.Module):\n    def __init__(self, shared):\n        super().__init__()\n"
        "        self.one = nn.Linear(3, 3)\n        self.two = self.one if shared else nn.Linear(3, 3)" + FILL
        + "\nclass Net(Base):\n    def __init__(self):\n        super().__init__(shared=True)\n\n"
        "    def forward(self, x):\n        return self.one(x).sin() + self.two(x)\n\nnet = Net()\n",
        "F.cross_entropy(net(a), b)",
    ),
    "a star before other arguments": trained(
        PLAIN
        + "class Two(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
        "    def forward(self, x):\n        out = self.net(x)\n        return out, out * 2\n\nnet = Two()\n"
        "def cost(one, two, wanted):\n    return F.cross_entropy(one, wanted) + two.pow(2).mean()\n\n",
        "cost(*net(a), b)",
        "with torch.no_grad():\n    losses.append(cost(*net(x), y).item())\n",
    ),
    "a loss of all that a model gives": trained(
        PLAIN
        + "class Three(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net = Net()\n\n"
        "    def forward(self, x):\n        out = self.net(x)\n        return out, out * 2, out - 1\n\nnet = Three()\n"
        "criterion = nn.TripletMarginLoss(margin=1.0)\n",
        "criterion(*net(a))",
    ),
    "the nodes of a graph that a mask tells": trained(
        PLAIN + "masks = []\nfor n in (4, 6):\n    m = np.zeros(8, dtype=bool)\n    m[:n] = True\n"
        "    masks.append(torch.from_numpy(m))\ntrain_mask, val_mask = masks\n",
        "F.cross_entropy(net(x)[train_mask], y[train_mask])",
    ),
    "the same by a module": trained(
        PLAIN + "criterion = nn.CrossEntropyLoss()\nmask = y > 0\n", "criterion(net(x)[mask], y[mask])"
    ),
    "elements by a mask in a module's loss": trained(
        PLAIN + "mse = nn.MSELoss(reduction='sum')\n", "mse(net(a)[b == 1], a[b == 1])"
    ),
    "elements in other rows": trained(
        PLAIN,
        "F.smooth_l1_loss(net(a)[b > 0].view(-1, 1), a[b > 0].view(-1, 1), reduction='sum')",
    ),
    "all pairs but those with itself": trained(
        PLAIN + "def contrast(z, temperature=0.5):\n    n = z.shape[0]\n    sim = z @ z.T / temperature\n"
        "    mask = ~torch.eye(n, dtype=torch.bool)\n    rest = sim[mask].view(n, -1)\n"
        "    return (torch.logsumexp(rest, dim=1) - sim.roll(1, 1).diag()).mean()\n\n",
        "contrast(net(a))",
    ),
    "labels of the same kind": trained(
        PLAIN + "def scores_of(features, batch, views=2):\n"
        "    labels = torch.cat([torch.arange(batch) for i in range(views)], dim=0)\n"
        "    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()\n"
        "    sim = features @ features.T\n    mask = torch.eye(labels.shape[0], dtype=torch.bool)\n"
        "    labels = labels[~mask].view(labels.shape[0], -1)\n    sim = sim[~mask].view(sim.shape[0], -1)\n"
        "    positives = sim[labels.bool()].view(labels.shape[0], -1)\n"
        "    negatives = sim[~labels.bool()].view(sim.shape[0], -1)\n"
        "    logits = torch.cat([positives, negatives], dim=1)\n"
        "    return logits, torch.zeros(logits.shape[0], dtype=torch.long)\n\n",
        "F.cross_entropy(*scores_of(net(torch.cat([a, a * 1.1])), 4))",
    ),
    "settings that are looked up from outside": trained(
        layers(
            "        self.letters = letters\n        self.named = dict(enumerate(self.letters))\n"
            "        self.numbered = {c: i for i, c in self.named.items()}\n"
            "        self.net = nn.Linear(3, len(letters))"
            + FILL,
            takes="self, letters",
        )
        + "net = Net(('a', 'b', 'c'))\nlosses += [net.numbered[c] for c in 'cab'] + [len(net.named[1])]\n",
        "F.cross_entropy(net(a), b)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
def test_forms(source: str) -> None:
    theirs, ours = rewritten.both(source)
    assert len(theirs["losses"]) == len(ours["losses"]) >= 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


MIXED = """
def mixed(images, share):
    order = torch.from_numpy(np.random.permutation(len(images)))
    n = int(images.shape[1] * share)
    made = images.clone()
    made[:, :n] = images[order, :n]
    return made, order, n / images.shape[1]

np.random.seed(0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for a, b in loader:
        if np.random.rand() < 0.5:
            a, order, share = mixed(a, np.random.beta(1.0, 1.0))
            out = net(a)
            loss = F.cross_entropy(out, b[order]) * share + F.cross_entropy(out, b) * (1.0 - share)
        else:
            out = net(a)
            loss = F.cross_entropy(out, b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def test_updates_behind_a_branch_that_draws() -> None:
    """Each side has a step of its own; what numpy draws is drawn once, in the order in which torch's script does."""
    theirs, ours = rewritten.both(HEAD + PLAIN + MIXED)
    assert len(theirs["losses"]) == 6 and len(set(theirs["losses"])) > 3
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


TIES = """import torch
import torch.nn as nn

x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -1.0, 0.0]])
scale = nn.Linear(3, 3, bias=False)
nn.init.eye_(scale.weight)
optimizer = torch.optim.SGD(scale.parameters(), lr=0.5)
for step in range(1):
    out = scale(x)
    loss = (out.max(1)[0] * torch.tensor([1.0, 2.0, 3.0])).sum() + out.min(dim=0).values.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    after = scale(torch.eye(3)).sum(0).tolist() + scale(torch.eye(3)).sum(1).tolist()
"""


def test_the_first_of_equal_extremes_has_the_gradient() -> None:
    theirs, ours = rewritten.both(TIES)
    np.testing.assert_allclose(ours["after"], theirs["after"], rtol=1e-6)  # float32, of one step
    assert "largest(" in rewritten.clean(TIES).text and "smallest(" in rewritten.clean(TIES).text


def test_extremes_keep_their_gradient_where_jit_computes_their_argument_twice() -> None:
    """Of these sizes XLA computes the normalised features once for the maximum and once for its gradient, and rounds
    otherwise: that of `h.max(axis=2)` is lost (jax 0.10.2 on a CPU, https://github.com/jax-ml/jax/issues/40564)."""
    random = np.random.default_rng(0)
    x, first, second, mix = (
        jnp.asarray(random.normal(size=size), jnp.float32) for size in ((16, 96, 3), (3, 64), (64, 128), (128, 6))
    )

    def normalised(h: jax.Array) -> jax.Array:
        mean = h.mean((0, 1))
        return (h - mean) * jax.lax.rsqrt(jnp.square(h - mean).mean((0, 1)) + 1e-5)

    def loss(weights: list[jax.Array]) -> jax.Array:
        h = normalised(jax.nn.relu(normalised(x @ weights[0])) @ weights[1])
        return jax.nn.log_softmax(largest(h.transpose(0, 2, 1), axis=2) @ mix)[:, 0].mean()

    eager, jitted = jax.grad(loss)([first, second]), jax.jit(jax.grad(loss))([first, second])
    for one, other in zip(eager, jitted, strict=True):
        error = jnp.linalg.norm(one - other) / jnp.linalg.norm(one)
        assert error < 1e-2  # a near tie that falls otherwise in float32 moves one of 2048 maxima


def test_what_torch_keeps_as_an_index_is_one_of_arrays() -> None:
    source = """import torch
import torch.nn as nn

generator = torch.Generator().manual_seed(0)
net = nn.Linear(6, 1)
placed = torch.zeros(2, 6)
for i in range(2):
    where = torch.randperm(6, generator=generator)[:3].sort().values
    placed[i, where] = torch.arange(3.0) + 1
seen = net(placed).shape
rows = placed.sum(1).tolist()
"""
    theirs, ours = rewritten.both(source)
    assert theirs["rows"] == ours["rows"] == [6.0, 6.0]


PAIRS = """import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self):
        self.random = np.random.RandomState(3)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return tuple(torch.from_numpy(self.random.rand(3).astype(np.float32)) for _ in range(2)), []


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, x):
        return self.fc(x)

    def embed(self, x):
        return self.forward(x) * 2


class Net(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, one, two):
        return self.part(one), self.part(two)


losses = []
cuda = torch.cuda.is_available()
loader = DataLoader(Pairs(), batch_size=4)
net = Net(Part())
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for data, _ in loader:
        if cuda:
            data = tuple(d.cuda() for d in data)
        optimizer.zero_grad()
        loss = criterion(*net(*data))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
net.eval()
with torch.no_grad():
    losses += net.part.embed(torch.ones(1, 3))[0].tolist()
"""


def test_tuples_of_a_data_set_that_draws_by_itself() -> None:
    """The element that weights are made with leaves the generator of the data set as it was."""
    theirs, ours = rewritten.both(PAIRS)
    assert len(theirs["losses"]) == 6
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


SHARED_OR_NOT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, shared=False):
        super().__init__()
        self.one = nn.Linear(3, 3)
        self.two = self.one if shared else nn.Linear(3, 3)

    def forward(self, x):
        return self.one(x) + self.two(x)


print(Net(True)(torch.ones(2, 3)).shape)
"""


def test_a_part_that_a_setting_shares_is_refused() -> None:
    (found, *_) = rewritten.conversion(SHARED_OR_NOT).report.diagnostics
    assert found.code == "MIG204" and "self.one or a part of its own, as `shared` says" in found.message


def test_a_mask_that_labels_have_not_the_axes_of_is_told_as_it_runs() -> None:
    with pytest.raises(ValueError, match="a mask of 1 axes for labels of 2"):
        selected(np.zeros((4, 2, 3)), np.zeros((4, 2), int), np.ones(4, bool))

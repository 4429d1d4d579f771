"""Batches that hold more than arrays, names of files mostly, and dicts of what there is for each step."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cpu")
X, Y = torch.arange(24.0).reshape(8, 3) / 10, torch.arange(8.0) / 7


class Named(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"x": X[i], "y": Y[i], "name": f"{i}.png"}


class Plain(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"x": X[i], "y": Y[i]}


class Pairs(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return X[i], Y[i]


class Rows(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return X[i], Y[i], f"{i}.png", {"a": X[i]}


class Nested(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return {"input": {"x": X[i], "name": f"{i}.png"}, "y": Y[i]}


class Views(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return [X[i], X[i] * 2, Y[i]]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 1)
        nn.init.constant_(self.lin.weight, 0.3)
        nn.init.constant_(self.lin.bias, 0.1)

    def forward(self, x):
        return self.lin(x).reshape(-1)


class OfDicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 1)
        nn.init.constant_(self.lin.weight, 0.3)
        nn.init.constant_(self.lin.bias, 0.1)

    def forward(self, batch):
        return self.lin(batch["x"]).reshape(-1)


def error(net, batch, key="x"):
    return ((net(batch[key]) - batch["y"]) ** 2).mean()


named, pairs = DataLoader(Named(), 4), DataLoader(Pairs(), 4)
rows, nested, plain = DataLoader(Rows(), 4), DataLoader(Nested(), 4), DataLoader(Plain(), 4)
views = DataLoader(Views(), 4)
data, key = {"x": X, "y": Y}, "x"
losses, seen = [], []
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
STEP = """    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
OF_B = "    loss = ((net(b['x']) - b['y']) ** 2).mean()\n"
OF_XY = "    loss = ((net(x) - y) ** 2).mean()\n"
MOVED = "for b in named:\n    b = {k: v.to(device) {} for k, v in b.items() {}}\n".replace("{}", "{0}", 1)
PLACING = """def to_device(b):
    if isinstance(b, torch.Tensor):
        return b.to(device)
    if isinstance(b, dict):
        return {k: to_device(v) for k, v in b.items()}
    return b


"""
OF_TENSORS = {
    "those that are tensors": "b = {k: v.to(device) for k, v in b.items() if isinstance(v, torch.Tensor)}",
    "by is_tensor": "b = {k: v for k, v in b.items() if torch.is_tensor(v)}",
    "moved where they are": "b = {k: (v.to(device) if isinstance(v, torch.Tensor) else v) for k, v in b.items()}",
    "left where they are none": "b = {k: v if not torch.is_tensor(v) else v.cuda() for k, v in b.items()}".replace(
        "cuda()", "to('cpu')"
    ),
    "in place": "for k, v in b.items():\n        if isinstance(v, torch.Tensor):\n            b[k] = v.to(device)",
    "in place by key": "for k in b:\n        if torch.is_tensor(b[k]):\n            b[k] = b[k].to(device)",
    "by a function": "b = to_device(b)",
    "as they are": "seen.append(b['name'][0])",
    "a copy": "b = dict(b)\n    seen += b.pop('name')",
}
LOOPS = {
    **{name: f"for b in named:\n    {line}\n{OF_B}" for name, line in OF_TENSORS.items()},
    "asked for": "for b in named:\n" + OF_B + "    if 'mask' in b:\n        loss = loss * b['mask'].mean()\n",
    "gotten": "for b in named:\n    w = b.get('w')\n"
    + OF_B
    + "    if w is not None:\n        loss = loss * w.mean()\n",
    "a key by name": "for b in named:\n    loss = ((net(b[key]) - b['y']) ** 2).mean()\n",
    "a function": "for b in named:\n    loss = error(net, b)\n",
    "parts of parts": "for b in nested:\n    loss = ((net(b['input']['x']) - b['y']) ** 2).mean()\n",
    "a part with a name": "for b in nested:\n    part = b['input']\n"
    "    loss = ((net(part['x']) - b['y']) ** 2).mean()\n",
    "names beside arrays": "for x, y, names, more in rows:\n    seen.append(names[0])\n" + OF_XY,
    "unpacked": "for b in rows:\n    x, y, names, more = b\n    seen.append(names[0])\n"
    "    loss = ((net(more['a']) - y) ** 2).mean()\n",
    "by number": "for b in rows:\n    loss = ((net(b[0]) - b[1]) ** 2).mean()\n",
    "by numbers apart": "for b in rows:\n    loss = ((net(b[3]['a']) - b[1]) ** 2).mean()\n".replace(
        "b[3]['a']", "b[0]"
    ),
    "the first ones": "for b in rows:\n    loss = F.mse_loss(*[net(b[0]), b[1]])\n",
    "taken apart by a function": "def error_of(b):\n    x, y, names, more = b\n"
    "    return ((net(x) - y) ** 2).mean()\n\n\n"
    "for b in rows:\n    loss = error_of(b)\n",
    "a list or not": "for b in pairs:\n    if isinstance(b, (list, tuple)):\n        x, y = b\n    else:\n"
    "        x, y = b, None\n" + OF_XY,
    "mapped": "for b in pairs:\n    x, y = map(lambda t: t.to(device), b)\n" + OF_XY,
    "filled": "for i in range(0, 8, 4):\n    b = {}\n    b['x'] = X[i : i + 4]\n    b['y'] = Y[i : i + 4]\n" + OF_B,
    "filled in turns": "for i in range(0, 8, 4):\n    b = {}\n    for k, v in data.items():\n"
    "        b[k] = v[i : i + 4]\n" + OF_B,
    "filled by rows": "for step in range(2):\n    rows_now = torch.arange(4) + step\n    b = {}\n"
    "    for k, v in data.items():\n        b[k] = v[rows_now]\n" + OF_B,
    "the last one apart": "for *xs, y in views:\n    loss = sum(((net(x) - y) ** 2).mean() for x in xs)\n",
    "by a number of the loop": "for k in range(2):\n  for b in views:\n"
    "    loss = ((net(b[k]) - b[2]) ** 2).mean() / (k + 1)\n",
    "asked for a method": "for b in named:\n"
    "    b = {k: v.to(device) if hasattr(v, 'to') else v for k, v in b.items()}\n" + OF_B,
    "of a batch": "for b in named:\n    b = {'x': b['x'], 'y': b['y']}\n" + OF_B,
}


@pytest.mark.parametrize("name", LOOPS)
def test_losses_are_torchs(name: str) -> None:
    text = HEAD + PLACING + LOOPS[name] + STEP
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert len(set(theirs["losses"])) >= 2
    assert ours["seen"] == theirs["seen"]


def test_models_of_dicts() -> None:
    text = HEAD.replace("net = Net()", "net = OfDicts()").replace(
        "    return ((net(batch[key])", "    return ((net(batch)"
    )
    loop = "for b in named:\n    loss = F.mse_loss(net(b), b['y'].to(device))\n" + STEP
    after = "with torch.no_grad():\n    for b in named:\n        losses.append(net(b).sum().item())\n"
    theirs, ours = rewritten.both(text + loop + after)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5, atol=1e-6)  # sums that cancel


WRITTEN = {
    "as they are": '{key: jnp.asarray(b[key]) for key in ("x", "y")}',
    "asked for": '{key: jnp.asarray(b[key]) for key in ("x", "y", "mask") if key in b}',
    "parts of parts": '{"input": {"x": jnp.asarray(b["input"]["x"])}, "y": jnp.asarray(b["y"])}',
    "by number": "jax.tree.map(jnp.asarray, b[:2])",
    "those that are tensors": "{k: jnp.asarray(v) for k, v in b.items() if isinstance(v, torch.Tensor)}",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_read_is_taken(name: str) -> None:
    assert WRITTEN[name] in rewritten.clean(HEAD + LOOPS[name] + STEP).text


def test_batches_of_arrays_alone_are_taken_whole() -> None:
    other = HEAD[: HEAD.index("class Named")] + HEAD[HEAD.index("class Plain") : HEAD.index("class Rows")]
    rest = HEAD[HEAD.index("class Net(") :].replace("named, pairs = DataLoader(Named(), 4), ", "pairs = ")
    rest = rest.replace("rows, nested, plain = DataLoader(Rows(), 4), DataLoader(Nested(), 4), ", "plain = ")
    text = rewritten.clean(other + rest + "for b in plain:\n" + OF_B + STEP).text
    assert "jax.tree.map(jnp.asarray, b)" in text


def test_a_text_in_a_dict_is_told() -> None:
    loop = "for i in range(0, 8, 4):\n    b = {}\n    b['x'] = X[i : i + 4]\n    b['y'] = str(i)\n"
    made = rewritten.conversion(HEAD + loop + "    loss = (net(b['x']) * len(b['y'])).mean()\n" + STEP)
    assert [one.code for one in made.report.diagnostics] == ["MIG401"]


def test_a_text_that_a_loss_reads_is_told() -> None:
    told = "def error_of(b):\n    return (net(b['x']) - b['y']).mean(), b['name'][0]\n\n\n"
    loop = "for b in named:\n    loss, name = error_of(b)\n"
    made = rewritten.conversion(HEAD + told + loop + STEP)
    assert [one.code for one in made.report.diagnostics] == ["MIG401"]
    assert "b['name'], which is a text" in made.report.as_text()


def test_loops_whose_variables_are_read_behind_stay() -> None:
    loop = (
        "for b in named:\n    for k, v in b.items():\n        if torch.is_tensor(v):\n            b[k] = v.to(device)\n"
    )
    text = rewritten.conversion(HEAD + loop + "    print(k)\n").text
    assert "for k, v in b.items():" in text

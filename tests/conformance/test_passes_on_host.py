"""Passes of models, and places of tensors that are set, at each turn of a loop on the host: compiled once."""

import numpy as np
import pytest

from tests.conformance import rewritten

METHODS = """
import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x, mask=None):
        h = self.body(x)
        if mask is not None:
            h = h * mask
        return self.head(h)

    def features(self, x, scale=None):
        h = self.body(x)
        return h if scale is None else h * scale

    def act(self, x, action=None):
        choice = Categorical(logits=self.head(self.features(x)))
        if action is None:
            action = choice.sample()
        return action, choice.log_prob(action), choice.entropy()

    def told(self, x):
        print(x.sum().item())
        return self.body(x)


model = Policy()
x = torch.arange(6.0).reshape(2, 3)
with torch.no_grad():
    masked = model(x, mask=torch.tensor([1.0, 0.0, 2.0, 1.0]))
    plain = model.features(x)
    scaled = model.features(x, scale=torch.tensor(3.0))
    action, log_prob, entropy = model.act(x)
    seen = model.told(x)
"""


def test_methods_are_jitted_where_they_compute_alone() -> None:
    text = rewritten.clean(METHODS).text
    assert "features(params, x)" in text and "act(params, subkey, x)" in text
    assert "model.told(params, x)" in text, "what prints is no jitted function"
    ours = rewritten.executed(text)
    kernels = ours["params"]
    body = np.asarray(ours["x"] @ kernels["body"]["kernel"] + kernels["body"]["bias"])
    head = np.asarray((body * [1, 0, 2, 1]) @ kernels["head"]["kernel"] + kernels["head"]["bias"])
    np.testing.assert_allclose(ours["masked"], head, rtol=1e-5)  # float32 rounding of two products
    np.testing.assert_allclose(ours["plain"], body, rtol=1e-6)
    np.testing.assert_allclose(ours["scaled"], body * 3, rtol=1e-6)
    np.testing.assert_allclose(ours["seen"], body, rtol=1e-6)
    assert ours["action"].shape == ours["log_prob"].shape == ours["entropy"].shape == (2,)


def test_only_methods_that_draw_are_given_keys() -> None:
    text = rewritten.clean(METHODS).text
    assert text.count('rngs={"sample": key}') == 1


STORED = """
import torch

kept, heads = [], []
for turn in range(3):
    rows = torch.zeros(4, 2)
    table = torch.zeros(4, 2, dtype=torch.int64)
    for i in range(4):
        rows[i] = torch.full((2,), float(i + turn)).reshape(1, -1)
        rows[i, 1] = -1
        rows[i, 0] = rows[i].sum()
        table[-i] = torch.tensor(i)
    flat = rows.reshape(-1)
    kept.append(flat.sum().item())
    heads.append((flat + table.view(-1)).tolist())
"""

COPIED = """
import torch

kept = []
x = torch.zeros(3)
for i in range(3):
    kept.append(x.clone())
    x[i] = i + 1.0
"""


def test_places_are_set_in_the_memory_of_a_tensor_that_is_nothing_elses() -> None:
    assert rewritten.clean(STORED).text.count("= set_part(") == 3
    theirs, ours = rewritten.both(STORED)
    assert theirs["kept"] == ours["kept"] and theirs["heads"] == ours["heads"]


@pytest.mark.parametrize(
    "copy", ["x.clone()", "x[:]", "x.detach().clone()", "torch.clone(x)", "x * 1", "torch.cat([x])"]
)
def test_a_tensor_that_jax_may_give_back_itself_keeps_its_memory(copy: str) -> None:
    text = COPIED.replace("x.clone()", copy)
    if copy == "x[:]":  # torch's is a view, which changes with x
        assert "MIG303" in rewritten.conversion(text).report.as_text()
        return
    theirs, ours = rewritten.both(text)
    assert [one.tolist() for one in theirs["kept"]] == [one.tolist() for one in ours["kept"]]


SHAPES = """import torch, torch.nn as nn
from collections import namedtuple
B = namedtuple("B", "obs actions extra")
class Buf:
    def sample(self, n):
        return B(torch.ones(n, 3), torch.ones(n, 2), torch.ones(n, 2))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor(2.0))
    def forward(self, x):
        return self.a(x) * self.scale
rb = Buf()
net = Net()
target = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for i in range(3):
    data = rb.sample(4)
    with torch.no_grad():
        noise = (torch.rand_like(data.actions) * 0.1).clamp(-1, 1) * target.scale + target(data.obs)
        more = torch.randn_like(data.extra) * target.scale
    loss = ((net(data.obs) + noise + more - data.actions) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
"""


def test_shapes_of_what_objects_hold_are_known_to_jit() -> None:
    """Of what the step is given itself they are its shape; else they are a static argument."""
    text = rewritten.clean(SHAPES).text
    assert "actions.shape)" in text and 'static_argnames="shape"' in text
    losses = rewritten.executed(text)["losses"]
    assert len(losses) == 3 and all(np.isfinite(losses))

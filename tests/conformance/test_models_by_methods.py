"""Models that scripts use through methods of their own, and modules without weights: ten steps in both frameworks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, trained

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, hidden=2):
        super().__init__()
        self.inner = nn.Linear(3, 2 * hidden)
        self.outer = nn.Linear(hidden, 3)
        self.hidden = hidden

    def encode(self, x):
        h = self.inner(x)
        return h[:, : self.hidden], h[:, self.hidden :]

    def decode(self, z, scale=1.0):
        return torch.tanh(self.outer(z)) * scale


losses = []
x = torch.linspace(-2, 3, 24).reshape(8, 3)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
LOOP = """for step in range(10):
    optimizer.zero_grad()
FORWARD
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
# what the forward pass is, and how the weights are made
CALLED = {
    "one in terms of the other": (
        "    mean, log_var = model.encode(x)\n    z = mean + torch.exp(0.5 * log_var)\n"
        "    loss = F.mse_loss(model.decode(z), x) + log_var.square().mean()",
        "lambda model, x: model.decode(model.encode(x)[0] + jnp.exp(0.5 * model.encode(x)[1]))",
    ),
    "each by itself": (
        "    loss = model.encode(x)[0].square().sum() + model.decode(x[:, :2], scale=0.5).mean()",
        "lambda model, x, x2: (model.encode(x), model.decode(x2, scale=0.5))",
    ),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_model_that_is_not_called_itself(name: str, float64: None) -> None:
    forward, lambda_ = CALLED[name]
    text = HEAD + LOOP.replace("FORWARD", forward)
    theirs, ours = trained(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert f"method={lambda_}" in " ".join(rewritten.clean(text).text.split())


def test_the_weights_are_all_made() -> None:
    """What `init` makes is what the methods use: the test above puts torch's in its place."""
    text = HEAD + LOOP.replace("FORWARD", CALLED["each by itself"][0])
    params = rewritten.executed(rewritten.clean(text).text)["params"]
    shapes = jax.tree.map(jnp.shape, params)
    assert shapes == {"inner": {"kernel": (3, 4), "bias": (4,)}, "outer": {"kernel": (2, 3), "bias": (3,)}}


def test_methods_that_leave_weights_out() -> None:
    forward = "    loss = model.encode(x)[0].square().sum()"
    made = rewritten.fresh(HEAD + LOOP.replace("FORWARD", forward))
    assert {found.code for found in made.report.diagnostics} == {"MIG402"}


PLAIN = """class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        nn.init.constant_(self.a.weight, 0.3)
        nn.init.constant_(self.a.bias, 0.1)

    def forward(self, x):
        return self.a(x)

    def objective(self, x):
        return F.mse_loss(self.forward(x), x)
"""
BENT = PLAIN.replace("Plain", "Bent").replace("self.a(x)", "torch.tanh(self.a(x))").replace("0.3", "0.2")
CHOSEN = f"""import torch
import torch.nn as nn
import torch.nn.functional as F


{PLAIN}

{BENT}

losses = []
x = torch.linspace(-2, 3, 24).reshape(8, 3)
name = "NAME"
if name == "plain":
    model = Plain()
else:
    model = Bent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.parametrize("name", ["plain", "bent"])
def test_one_of_two_models_that_are_not_called_themselves(name: str) -> None:
    """Each is made by the method that the script calls first."""
    text = CHOSEN.replace("NAME", name) + LOOP.replace("FORWARD", "    loss = model.objective(x)")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


TRAINED = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        return self.head(x)


class Focal(nn.Module):
    def __init__(self, gamma=2.0, weight=None):
        super().__init__()
        self.gamma, self.weight = gamma, weight

    def forward(self, logits, labels, shift=None):
        losses = F.cross_entropy(logits, labels, weight=self.weight, reduction="none")
        focal = ((1 - torch.exp(-losses)) ** self.gamma * losses).mean()
        return focal + F.binary_cross_entropy_with_logits(logits[:, 0], (labels == 0).double(), pos_weight=shift)


losses = []
x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = torch.arange(8) % 4
model = Net()
plain = Focal(gamma=1.5)
weighted = Focal(weight=torch.tensor([1.0, 2.0, 0.5, 0.0]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    loss = LOSS
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    losses.append(plain(model(x), y).item())
"""


@pytest.mark.parametrize(
    "loss",
    [
        "plain(model(x), y)",
        "weighted(model(x), y)",
        "plain(model(x), y) + weighted(model(x), y, torch.tensor(2.0))",
    ],
)
def test_a_loss_that_is_a_module(loss: str, float64: None) -> None:
    """It has no weights to pass around, and is given weights for classes or not."""
    text = TRAINED.replace("LOSS", loss)
    theirs, ours = trained(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    made = rewritten.clean(text).text
    assert "plain.apply({}, " in made
    assert "plain_params" not in made

"""Networks of physics-informed learning: named layers in a list of pairs, L-BFGS with a method as its closure."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

PINN = """import torch
from collections import OrderedDict

class DNN(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.depth = len(layers) - 1
        self.activation = torch.nn.Tanh
        rows = list()
        for i in range(self.depth - 1):
            rows.append(("layer_%d" % i, torch.nn.Linear(layers[i], layers[i + 1])))
            rows.append(("activation_%d" % i, self.activation()))
        rows.append(("layer_%d" % (self.depth - 1), torch.nn.Linear(layers[-2], layers[-1])))
        DICT
    def forward(self, x):
        return self.layers(x)

def fill(m):
    if isinstance(m, torch.nn.Linear):
        torch.nn.init.constant_(m.weight, 0.3)
        torch.nn.init.constant_(m.bias, 0.1)

class Physics:
    def __init__(self, layers):
        self.dnn = DNN(layers)
        self.dnn.apply(fill)
        self.optimizer = torch.optim.Adam(self.dnn.parameters(), lr=0.01)
    def residual(self, x, t):
        u = self.dnn(torch.cat([x, t], dim=1))
        u_t = torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)[0]
        return u_t + u * u_x
    def train(self, x, t, y):
        self.optimizer.zero_grad()
        u = self.dnn(torch.cat([x, t], dim=1))
        loss = ((u - y) ** 2).mean() + (self.residual(x, t) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

losses = []
x = torch.linspace(0, 1, 6).reshape(6, 1).requires_grad_(True)
t = torch.linspace(0, 2, 6).reshape(6, 1).requires_grad_(True)
model = Physics([2, 5, 5, 1])
for _ in range(4):
    losses.append(model.train(x, t, torch.ones(6, 1)))
"""
DICTS = {
    "a name": "named = OrderedDict(rows)\n        self.layers = torch.nn.Sequential(named)",
    "none": "self.layers = torch.nn.Sequential(OrderedDict(rows))",
}


@pytest.mark.parametrize("name", DICTS)
def test_losses_and_names_are_torchs(name: str) -> None:
    text = PINN.replace("DICT", DICTS[name])
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    made = rewritten.clean(text)
    torchs = list(theirs["model"].dnn.state_dict())
    assert torchs[0] == "layers.layer_0.weight"
    assert rewritten.model_weights(made, "DNN").leaves[0].torch.startswith("layers.layer_")


def test_a_list_that_is_read_stays() -> None:
    text = PINN.replace("DICT", "print(len(rows))\n        " + DICTS["none"])
    assert "MIG201" in {one.code for one in rewritten.conversion(text).report.diagnostics}


EVALUATED = """import torch

losses = []

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(1, 4)
        self.out = torch.nn.Linear(4, 1)
        self.lin.weight.data = torch.linspace(-1, 2, 4).reshape(4, 1)
        self.lin.bias.data = torch.linspace(-0.5, 0.5, 4)
        self.out.weight.data = torch.linspace(0.3, -0.4, 4).reshape(1, 4)
        self.out.bias.data = torch.zeros(1)
    def forward(self, x):
        return self.out(torch.tanh(self.lin(x)))

class Physics:
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.dnn = Net()
        self.optimizer = torch.optim.LBFGS(
            self.dnn.parameters(), lr=1.0, max_iter=6, max_eval=10, line_search_fn="strong_wolfe"
        )
        self.iter = 0
    def net_u(self, x):
        return self.dnn(x)
    def loss_func(self):
        self.optimizer.zero_grad()
        loss = ((self.net_u(self.x) - self.y) ** 2).mean()
        loss.backward()
        self.iter += 1
        if self.iter % 2 == 0:
            losses.append(loss.item())
        return loss
    def train(self):
        self.dnn.train()
        self.optimizer.step(self.loss_func)

x = torch.linspace(0, 1, 6).reshape(6, 1)
model = Physics(x, torch.sin(3 * x))
model.train()
losses.append(((model.net_u(x) - model.y) ** 2).mean().item())
"""


def test_a_method_that_an_optimizer_evaluates() -> None:
    """It counts and tells on the host, each time that it is evaluated."""
    theirs, ours = rewritten.both(EVALUATED)
    assert len(theirs["losses"]) > 3
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4)  # a line search divides small differences
    assert ours["model"].iter == theirs["model"].iter
    again = EVALUATED.replace("model.train()\n", "model.train()\nmodel.loss_func()\n")
    assert "MIG401" in {one.code for one in rewritten.conversion(again).report.diagnostics}

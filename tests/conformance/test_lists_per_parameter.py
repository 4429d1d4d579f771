"""Lists that scripts keep beside the parameters of a model: momentum, averages and gradients of their own."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten

HEAD = """import torch
import torch.nn.functional as F
from torch import nn

x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = torch.sin(torch.linspace(0, 5, 16)).reshape(8, 2)
losses = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        for layer in (self.first, self.second):
            nn.init.constant_(layer.weight, 0.3)
            nn.init.constant_(layer.bias, -0.1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


net = Net()
"""
LOOP = """for step in range(6):
    loss = F.mse_loss(net(x), y)
    net.zero_grad()
    loss.backward()
    {update}
    losses.append(loss.item())
total = float(sum((p.detach() ** 2).sum() for p in net.parameters()))
{after}
"""
VELOCITIES = "vs = [torch.zeros_like(p) for p in net.parameters()]\n"
ADAM = """def adam(parameters, vs, sqrs, lr, t, beta1=0.9, beta2=0.999):
    eps = 1e-8
    for param, v, sqr in zip(parameters, vs, sqrs):
        v[:] = beta1 * v + (1 - beta1) * param.grad.data
        sqr[:] = beta2 * sqr + (1 - beta2) * param.grad.data ** 2
        v_hat = v / (1 - beta1 ** t)
        s_hat = sqr / (1 - beta2 ** t)
        param.data = param.data - lr * v_hat / torch.sqrt(s_hat + eps)


first = []
second = []
for param in net.parameters():
    first.append(torch.zeros_like(param.data))
    second.append(torch.zeros_like(param.data))
t = 1
"""
OF_A_MODEL = """class Average:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = []
        for p in model.parameters():
            self.shadow.append(p.clone().detach())

    def update(self):
        for s, p in zip(self.shadow, self.model.parameters()):
            s.mul_(self.decay).add_(p.data, alpha=1 - self.decay)

    def put(self):
        for s, p in zip(self.shadow, self.model.parameters()):
            p.data.copy_(s.data)


optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
average = Average(net, decay=0.8)
"""
OF_PARAMETERS = """class Average:
    def __init__(self, parameters, decay):
        self.decay = decay
        self.shadow = [p.clone().detach() for p in parameters if p.requires_grad]

    def update(self, parameters):
        with torch.no_grad():
            parameters = [p for p in parameters if p.requires_grad]
            for s, p in zip(self.shadow, parameters):
                s.sub_((1 - self.decay) * (s - p))

    def put(self, parameters):
        parameters = [p for p in parameters if p.requires_grad]
        for s, p in zip(self.shadow, parameters):
            p.data.copy_(s.data)


optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
average = Average(net.parameters(), decay=0.8)
"""
PUT = "{put}\ntotal = float(F.mse_loss(net(x), y).detach())"
# what comes before the loop, the update in it, and what comes after it
FORMS = {
    "momentum": (
        VELOCITIES,
        """with torch.no_grad():
        for p, v in zip(net.parameters(), vs):
            v.mul_(0.9).add_(p.grad)
            p -= 0.1 * v""",
        "",
    ),
    "momentum that looks ahead": (
        "params = list(net.parameters())\nvs = list(torch.zeros_like(p) for p in params)\n",
        """for v, p in zip(vs, params):
        v.mul_(0.9).add_(p.grad)
        p.data.sub_(0.1 * (p.grad + 0.9 * v))""",
        "",
    ),
    "a step before its momentum changes": (
        VELOCITIES,
        """with torch.no_grad():
        for p, v in zip(net.parameters(), vs):
            p -= 0.1 * (v + p.grad)
            v.mul_(0.5)
            v += p.grad""",
        "",
    ),
    "a step by what the momentum was": (
        VELOCITIES,
        """with torch.no_grad():
        for p, v in zip(net.parameters(), vs):
            before = 2 * v
            v.mul_(0.5).add_(p.grad)
            p -= 0.1 * before""",
        "",
    ),
    "a function with two lists": (ADAM, "adam(net.parameters(), first, second, 1e-2, t)\n    t += 1", ""),
    "an average": (
        "average = [p.clone().detach() for p in net.parameters()]\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n",
        """optimizer.step()
    for target, source in zip(average, net.parameters()):
        target.detach().mul_(0.9).add_(source, alpha=0.1)""",
        "total = float(sum((a - b.detach()).abs().sum() for a, b in zip(average, net.parameters())))",
    ),
    "an object with an average of a model": (
        OF_A_MODEL,
        "optimizer.step()\n    average.update()",
        PUT.format(put="average.put()"),
    ),
    "an object with an average of parameters": (
        OF_PARAMETERS,
        "optimizer.step()\n    average.update(net.parameters())",
        PUT.format(put="average.put(net.parameters())"),
    ),
    "gradients that are kept": (
        "",
        """grads = [p.grad.clone() * 2 for p in net.parameters()]
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads):
            p -= 0.05 * g""",
        "",
    ),
    "filled from one number": (
        VELOCITIES,
        """with torch.no_grad():
        for p, v in zip(net.parameters(), vs):
            v[:] = 0.01
            p.sub_(v * p.grad)""",
        "",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_same_losses(name: str) -> None:
    made, update, after = FORMS[name]
    text = HEAD + made + LOOP.format(update=update, after=after)
    theirs, ours = rewritten.both(text)
    for what in ("losses", "total"):
        np.testing.assert_allclose(ours[what], theirs[what], rtol=1e-5)  # float32: each of six steps rounds


def test_each_list_has_a_statement_of_its_own() -> None:
    made, update, _ = FORMS["momentum"]
    text = convert(parse("train.py", HEAD + made + LOOP.format(update=update, after=""))).text
    assert "vs = jax.tree.map(jnp.zeros_like, params)" in text
    assert "    vs = jax.tree.map(lambda v, p_grad: v * 0.9 + p_grad, vs, grads)\n" in text
    assert "    params = jax.tree.map(lambda p, v: p - 0.1 * v, params, vs)\n" in text


IN_ORDER = "for v, rate in zip(vs, [0.1, 0.2, 0.3, 0.4]):\n    print(v * rate)"


@pytest.mark.parametrize("use", ["print(vs[0])", "print(len(vs))", "show(vs)", "vs.append(1)", IN_ORDER])
def test_a_list_that_is_more_than_gone_through_stays_a_list(use: str) -> None:
    made, update, _ = FORMS["momentum"]
    report = convert(parse("train.py", HEAD + made + LOOP.format(update=update, after=use))).report
    assert report.exit_code == 1, report.as_text()


def test_a_list_that_may_stay_empty_stays_a_list() -> None:
    made = VELOCITIES.replace("vs =", "vs = []\nif step_by_hand:\n    vs =")
    text = HEAD.replace("losses = []", "losses, step_by_hand = [], bool(len(y))") + made
    report = convert(parse("train.py", text + LOOP.format(update=FORMS["momentum"][1], after=""))).report
    assert report.exit_code == 1, report.as_text()


def test_what_a_list_holds_has_no_gradient() -> None:
    made, update, _ = FORMS["momentum"]
    text = HEAD + made + LOOP.format(update=update.replace("p.grad", "v.grad"), after="")
    found = convert(parse("train.py", text)).report.diagnostics
    assert "v.grad, of what vs holds" in " ".join(one.message for one in found)

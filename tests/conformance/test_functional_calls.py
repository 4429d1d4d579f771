"""Models called with weights that a script has made: `functional_call`, gradients by dicts of weights."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import numpy_state
from weight_port import port_state_dict

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

HEAD = """import torch
import torch.nn as nn
from torch.func import functional_call, grad, grad_and_value, vmap


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.c = nn.Conv1d(1, 2, 3)
        self.b = nn.Linear(4, 2)

    def forward(self, x, scale=1.0):
        x = torch.tanh(self.a(x)).unsqueeze(1)
        return self.b(torch.tanh(self.c(x)).flatten(1)) * scale


model = M()
params = dict(model.named_parameters())


def loss_fn(params, x, y):
    return ((functional_call(model, params, (x,)) - y) ** 2).mean()


def of_one(params, x, y):
    return loss_fn(params, x.unsqueeze(0), y.unsqueeze(0))


def run(params, x, y):
    BODY


print(model(torch.ones(2, 3)), of_one(params, torch.ones(3), torch.ones(2)))
print(run(params, torch.ones(2, 3), torch.ones(2, 2)))
"""
TREES = (
    "return grad(loss_fn)(params, x, y)",
    "return {k: v.clone() for k, v in params.items()}",
    "return dict(params)",
    "return dict(zip(params.keys(), [p * 2 for p in params.values()]))",
    "return vmap(grad(of_one), in_dims=(None, 0, 0))(params, x, y)",
    """grads = grad(loss_fn)(params, x, y)
    return {k: p - 0.1 * grads[k] for k, p in params.items()}""",
    """grads, loss = grad_and_value(loss_fn)(params, x, y)
    return {k: (p - loss * g).clamp(-0.3, 0.3) for (k, p), (_, g) in zip(params.items(), grads.items())}""",
    """loss = loss_fn(params, x, y)
    grads = torch.autograd.grad(loss, params.values())
    return {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads)}""",
    """out = functional_call(model, params, (x,), {"scale": 2.0})
    grads = torch.autograd.grad((out ** 2).sum(), list(params.values()))
    return {k: torch.sign(g) for k, g in zip(params, grads)}""",
    """fast = params
    for _ in range(3):
        loss = loss_fn(fast, x, y)
        grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=True)
        fast = {k: p - 0.1 * g for (k, p), g in zip(fast.items(), grads)}
    return fast""",
)
ARRAYS = (
    "return functional_call(model, params, x)",
    "return functional_call(model, (params, dict(model.named_buffers())), args=(x,), kwargs={'scale': 3.0})",
    """loss = loss_fn(params, x, y)
    grads = torch.autograd.grad(loss, params.values())
    return sum((g ** 2).sum() for g in grads)""",
    """total = torch.zeros(())
    for k, g in grad(loss_fn)(params, x, y).items():
        total = total + g.norm()
    return total""",
    """def outer(params):
        loss = loss_fn(params, x, y)
        grads = torch.autograd.grad(loss, params.values(), create_graph=True)
        fast = {k: p - 0.5 * g for (k, p), g in zip(params.items(), grads)}
        return loss_fn(fast, x, y)

    return outer(params)""",
)


def both(body: str) -> tuple[Any, Any, Any]:
    """What the function gives in torch and in JAX from the same weights, and how weights move."""
    source = HEAD.replace("BODY", body)
    made = rewritten.clean(source)
    written, found = rewritten.executed(source), rewritten.executed(made.text)
    x, y = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    weights = rewritten.model_weights(made)
    state = numpy_state(written["model"])
    params = jax.tree.map(jnp.asarray, port_state_dict(state, weights)["params"])
    expected = written["run"](written["params"], torch.tensor(x), torch.tensor(y[:, :2]))
    return expected, found["run"](params, jnp.asarray(x), jnp.asarray(y[:, :2])), weights


@pytest.mark.parametrize("body", TREES)
def test_dicts_of_weights(body: str) -> None:
    expected, found, weights = both(body)
    if "vmap" in body:
        found = jax.tree.map(lambda leaf: leaf.sum(0), found)
        expected = {name: value.sum(0) for name, value in expected.items()}
    arrays = {name: value.detach().numpy() for name, value in expected.items()}
    ours = port_state_dict(arrays, weights)["params"]
    assert jax.tree.structure(found) == jax.tree.structure(ours)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(ours), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("body", ARRAYS)
def test_values(body: str) -> None:
    expected, found, _ = both(body)
    np.testing.assert_allclose(np.asarray(found), expected.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return params['a.weight']", "MIG302"),
        ("return {k: v for k, v in params.items() if 'a' in k}", "MIG302"),
        ("return {k: v * len(k) for k, v in params.items()}", "MIG302"),
        ("return {k: v.t() for k, v in params.items()}", "MIG301"),
        ("return functional_call(model, {'a.weight': x}, (x,))", "MIG302"),
        ("return functional_call(model, params, (x,), strict=True)", "MIG302"),
        ("return len(params)", "MIG302"),
        ("return 'a.weight' in params", "MIG302"),
    ],
)
def test_declined(body: str, code: str) -> None:
    report = rewritten.conversion(HEAD.replace("BODY", body)).report
    assert {found.code for found in report.diagnostics} == {code}, report.as_text()


def test_weights_of_before_a_step_are_refused() -> None:
    training = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.ones(2, 3), torch.ones(2, 2)
for _ in range(2):
    loss = loss_fn(dict(model.named_parameters()), x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss_fn(params, x, y))
"""
    (found,) = rewritten.conversion(HEAD.replace("BODY", "return x") + training).report.diagnostics
    assert found.code == "MIG401" and found.source == "print(loss_fn(params, x, y))"


def test_a_comment_calls_no_model() -> None:
    text = """import torch

# functional_call was passed multiple values for tied weights
model = torch.nn.Linear(3, 2)
weights = {name: p for name, p in model.named_parameters()}
weights = {name: p for name, p in weights.items() if p.requires_grad}
groups = [{"params": [p for p in weights.values() if p.dim() > 1], "weight_decay": 0.1}]
groups.append({"params": [p for p in weights.values() if p.dim() < 2], "weight_decay": 0.0})
optimizer = torch.optim.AdamW(groups, lr=0.1)
loss = model(torch.ones(2, 3)).sum()
loss.backward()
optimizer.step()
"""
    found = rewritten.fresh(text).report.diagnostics
    assert not any("some of the weights" in one.message for one in found), found

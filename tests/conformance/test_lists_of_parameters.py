"""Optimizers of models and of tensors beside them: a temperature, weights of losses, what multiplies the input."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import argparse
import itertools
import torch
from torch import nn

args = argparse.Namespace(both=True)
net, head = nn.Linear(2, 2), nn.Linear(2, 1)
for layer in (net, head):
    nn.init.constant_(layer.weight, 0.3)
    nn.init.constant_(layer.bias, 0.1)
w, v = nn.Parameter(torch.ones(2)), torch.zeros(1, requires_grad=True)
x = torch.linspace(-1, 2, 8).reshape(4, 2)
"""
LOOP = """losses = []
for step in range(3):
    loss = ((head(net(x * w)) + v - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    CLIP
    optimizer.step()
    losses.append(loss.item())
print(w, v)
"""
NAMED = "optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)\n"
LISTS = {
    "a display": "params = [*net.parameters(), w]\n",
    "a sum": "params = list(net.parameters()) + [w, v] + list(head.parameters())\n",
    "append": "params = list(net.parameters())\nparams.append(w)\n",
    "extend": "params = [w]\nparams.extend(net.parameters())\nparams.extend([v])\n",
    "+=": "params = []\nparams += list(net.parameters())\nscale = 1\nparams += [w]\nparams += head.parameters()\n",
    "assigned": "params = list(net.parameters())\nparams = params + [w]\n",
    "models alone": "params = list(net.parameters())\nparams += list(head.parameters())\n",
    "a loop": "params = [w]\nfor layer in (net, head):\n    params += list(layer.parameters())\n",
    "a chain": "params = itertools.chain(net.parameters(), [w], head.parameters())\n",
    "one weight": "params = [net.weight, w]\n",
    "groups": 'params = [{"params": net.parameters()}, {"params": [w], "lr": 0.01}]\n',
    "groups of both": 'params = [{"params": [*net.parameters(), w]}, {"params": [v, *head.parameters()], "lr": 0.3}]\n',
    "a group by name": "rest = [*head.parameters(), v]\n"
    'params = [{"params": rest, "lr": 0.1}, {"params": net.weight}]\n',
}
CLIPPED = ("a display", "a sum", "append", "extend", "+=", "assigned", "models alone", "a loop")


CASES = [(name, "pass") for name in LISTS] + [(name, "nn.utils.clip_grad_norm_(params, 0.1)") for name in CLIPPED]


@pytest.mark.parametrize(("name", "clip"), CASES)
def test_losses_are_torchs(name: str, clip: str) -> None:
    text = HEAD + LISTS[name] + NAMED + LOOP.replace("CLIP", clip)
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    for each in ("w", "v"):
        np.testing.assert_allclose(ours[each], theirs[each].detach(), rtol=1e-5, atol=1e-7)


def test_the_optimizer_has_a_pytree_of_them() -> None:
    made = rewritten.clean(HEAD + LISTS["append"] + NAMED + LOOP.replace("CLIP", "pass")).text
    assert "optimizer.init((net_params, w))" in made
    assert "params = [" not in made


def test_groups_are_called_after_what_they_are() -> None:
    made = rewritten.clean(HEAD + LISTS["groups"] + NAMED + LOOP.replace("CLIP", "pass")).text
    assert '("net", "w")' in made


@pytest.mark.parametrize(
    "clip", ["clip_grad_norm_([w, v], 0.1)", "clip_grad_value_([w], 0.01)", "clip_grad_norm_(w, 0.1)"]
)
def test_gradients_of_tensors_are_clipped(clip: str) -> None:
    optimizer = "optimizer = torch.optim.Adam([w, v], lr=0.1)\n"
    theirs, ours = rewritten.both(HEAD + optimizer + LOOP.replace("CLIP", f"nn.utils.{clip}"))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize(
    "filling",
    [
        "if args.both:\n    params.append(w)\n",
        "if args.both:\n    params += list(head.parameters())\n",
        "for layer in (net, head):\n    print(layer)\n    params.extend(layer.parameters())\n",
        "print(params)\nparams += [w]\n",
    ],
)
def test_what_is_not_followed_is_told(filling: str) -> None:
    made = rewritten.conversion(
        f"{HEAD}params = list(net.parameters())\n{filling}{NAMED}{LOOP.replace('CLIP', 'pass')}"
    )
    assert "MIG302" in [one.code for one in made.report.diagnostics]
    assert "a list of parameters that is filled bit by bit" in made.report.as_text()


def test_a_sum_of_a_weight_and_a_tensor_is_no_list() -> None:
    text = f"{HEAD}both = net.weight + w\nmore = w + w\nprint(both.sum().item())\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["both"], theirs["both"].detach(), rtol=1e-6)
    np.testing.assert_allclose(ours["more"], theirs["more"].detach(), rtol=1e-6)

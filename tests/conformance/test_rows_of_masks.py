"""`x[mask] = rows` in a loss: a row for each True, as in the targets of Q-learning. Under jit it is no index."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.snippets.set_rows_where import set_rows_where
from tests.conformance import rewritten

MASKS = [[True, False, True, True], [False] * 4, [True] * 4, [False, False, False, True]]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("width", [(), (3,)])
@pytest.mark.parametrize("rows", ["each", "one", "first", "number"])
def test_the_rows_go_where_torch_puts_them(mask: list[bool], width: tuple[int, ...], rows: str) -> None:
    x = np.arange(4 * max(width or (1,)), dtype=np.float32).reshape(4, *width)
    count = sum(mask)
    shape = {"each": (count, *width), "one": width, "first": (1, *width), "number": ()}[rows]
    value = 10 + np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    wanted = torch.tensor(x)
    wanted[torch.tensor(mask)] = torch.tensor(value)
    found = jax.jit(set_rows_where)(jnp.array(x), jnp.array(mask), jnp.array(value))
    np.testing.assert_array_equal(found, wanted.numpy())


def test_so_do_their_gradients() -> None:
    x, mask, value = np.ones((2, 2), np.float32), np.array([[True, False], [True, True]]), np.array([2.0, 3.0, 4.0])
    theirs = torch.tensor(value, requires_grad=True)
    whole = torch.tensor(x, dtype=torch.float64)
    whole[torch.tensor(mask)] = theirs
    (whole**3).sum().backward()
    ours = jax.grad(lambda value: (set_rows_where(jnp.array(x), jnp.array(mask), value) ** 3).sum())(jnp.array(value))
    assert theirs.grad is not None
    np.testing.assert_allclose(ours, theirs.grad.numpy(), rtol=1e-6)


LEARNING = """import torch
import torch.nn as nn
import torch.nn.functional as F

policy = nn.Linear(4, 2)
target = nn.Linear(4, 2)
for net, value in ((policy, 0.1), (target, 0.2)):
    nn.init.constant_(net.weight, value)
    nn.init.constant_(net.bias, value)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)


def optimize(states, following, actions, rewards):
    mask = torch.tensor(tuple(map(lambda s: s is not None, following)), dtype=torch.bool)
    non_final = torch.cat([s for s in following if s is not None])
    values = policy(torch.cat(states)).gather(1, torch.cat(actions))
    following_values = torch.zeros(6)
    with torch.no_grad():
        following_values[mask] = target(non_final).max(1).values
    expected = following_values * 0.9 + torch.cat(rewards)
    loss = F.smooth_l1_loss(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


losses = []
for step in range(4):
    states = [torch.full((1, 4), 0.1 * (i + step)) for i in range(6)]
    following = [None if i % (step + 2) == 0 else s + 0.2 for i, s in enumerate(states)]
    actions = [torch.tensor([[i % 2]]) for i in range(6)]
    rewards = [torch.tensor([float(i)]) for i in range(6)]
    losses.append(optimize(states, following, actions, rewards))
"""


def test_q_learning() -> None:
    theirs, ours = rewritten.both(LEARNING)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert "set_rows_where(following_values, mask, " in rewritten.clean(LEARNING).text

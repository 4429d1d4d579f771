"""Batches that enter JAX on one way and are torch's on another: `try: next(it)`, branches without an else; and
gradients of what the callers of a function have computed. Both frameworks run the same script."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TRAINER = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Solver:
    def __init__(self, first, second, choice):
        self.first, self.second, self.choice = first, second, choice
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.net = nn.Linear(4, 3)
        nn.init.constant_(self.net.weight, 0.5)
        nn.init.constant_(self.net.bias, 0.25)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def gradient_penalty(self, y, x):
        weight = torch.ones(y.size())
        slope = torch.autograd.grad(outputs=y, inputs=x, grad_outputs=weight, retain_graph=True, create_graph=True)[0]
        return torch.mean((torch.sqrt(torch.sum(slope ** 2, dim=1)) - 1) ** 2)

    def train(self):
        losses = []
        if self.choice == "first":
            loader = self.first
        elif self.choice == "second":
            loader = self.second
        batches = iter(loader)
        for step in range(5):
            try:
                x, y = next(batches)
            except EXCEPTION:
                batches = iter(loader)
                x, y = next(batches)
            if self.choice == "first":
                z = y.clone()
            elif self.choice == "second":
                z = y + 0
            x = x.to(self.device)
            z = z.to(self.device)
            asked = (x * 2).requires_grad_(True)
            scored = self.net(asked) ** 2
            penalty = self.gradient_penalty(scored, asked)
            loss = F.cross_entropy(self.net(x), z) + penalty
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses


def batches_of(number):
    return DataLoader(TensorDataset(torch.arange(4.0 * number).view(number, 4) / 40, torch.arange(number) % 3), 4)


losses = Solver(batches_of(10), batches_of(12), CHOICE).train()
"""


def test_a_variable_of_a_method_is_no_function_of_its_name() -> None:
    """Of which an example for the constructor would have been taken."""
    text = TRAINER.replace("EXCEPTION", "StopIteration").replace("CHOICE", '"first"').replace("batches_of", "loader")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


@pytest.mark.parametrize("choice", ["first", "second"])
@pytest.mark.parametrize("caught", ["StopIteration", ""])
def test_a_loader_that_starts_again(choice: str, caught: str) -> None:
    text = TRAINER.replace("except EXCEPTION", f"except {caught}".rstrip()).replace("CHOICE", repr(choice))
    assert "z = jnp.asarray(y.clone())\n" in rewritten.clean(text).text
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)

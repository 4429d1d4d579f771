"""Layers that a constructor gives to a function which fills their weights."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn


def filled(layer, gain=1.0, bias=0.5):
    \"\"\"Orthogonal.\"\"\"
    nn.init.orthogonal_(layer.weight, gain=gain)
    nn.init.constant_(layer.bias, bias)


class Settings:
    orthogonal = ORTHOGONAL


class Actor(nn.Module):
    def __init__(self, n, settings):
        super().__init__()
        self.fc1 = nn.Linear(n, 8)
        self.fc2 = nn.Linear(8, 3)
        WHERE
            filled(self.fc1)
            filled(self.fc2, gain=0.01, bias=0.25)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


net = Actor(4, Settings())
losses = []
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.ones(2, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    losses.append(loss.item())
"""


@pytest.mark.parametrize("where", ["if settings.orthogonal:", "for _ in [0]:"])
def test_the_weights_are_as_the_function_fills_them(where: str) -> None:
    _, ours = rewritten.both(TEXT.replace("WHERE", where).replace("ORTHOGONAL", "True"))
    first, second = ours["params"]["fc1"], ours["params"]["fc2"]
    np.testing.assert_allclose(first["kernel"] @ first["kernel"].T, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(second["kernel"].T @ second["kernel"], 1e-4 * np.eye(3), atol=1e-10)
    np.testing.assert_array_equal(first["bias"], np.full(8, 0.5, np.float32))
    np.testing.assert_array_equal(second["bias"], np.full(3, 0.25, np.float32))


def test_where_the_settings_say_otherwise_they_are_those_of_the_layer() -> None:
    _, ours = rewritten.both(TEXT.replace("WHERE", "if settings.orthogonal:").replace("ORTHOGONAL", "False"))
    first = ours["params"]["fc1"]
    assert 0.25 < np.abs(first["kernel"]).max() <= 0.5  # U(-1/sqrt(4), 1/sqrt(4)), of 32 draws
    assert 0.1 < np.abs(first["bias"]).max() <= 0.5


def test_layers_one_after_another() -> None:
    one = "            filled(self.fc1)\n            filled(self.fc2, gain=0.01, bias=0.25)"
    text = TEXT.replace("WHERE", "for layer in [self.fc1, self.fc2]:").replace("ORTHOGONAL", "True")
    _, ours = rewritten.both(text.replace(one, "            filled(layer, gain=2.0)"))
    for weights in ours["params"].values():
        wide = weights["kernel"] if weights["kernel"].shape[0] < weights["kernel"].shape[1] else weights["kernel"].T
        np.testing.assert_allclose(wide @ wide.T, 4 * np.eye(len(wide)), atol=1e-5)
        np.testing.assert_array_equal(weights["bias"], np.full_like(weights["bias"], 0.5))


def test_the_function_is_gone() -> None:
    made = rewritten.clean(TEXT.replace("WHERE", "if settings.orthogonal:").replace("ORTHOGONAL", "True")).text
    assert "filled" not in made


def test_one_that_something_else_mentions_stays_and_is_refused() -> None:
    made = rewritten.conversion(
        TEXT.replace("WHERE", "if settings.orthogonal:").replace("ORTHOGONAL", "True") + "kept = [filled]\n"
    )
    assert {one.code for one in made.report.diagnostics} == {"MIG204"}

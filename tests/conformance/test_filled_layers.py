"""Functions that give a layer its initial weights and return it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tests.conformance import rewritten

FUNCTION = '''import numpy as np
import torch
import torch.nn as nn


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    """Orthogonal weights."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias_const)
    return layer


'''
NET = """class Net(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.body = nn.Sequential(layer_init(nn.Linear(8, 4)), nn.Tanh())
        self.head = layer_init(nn.Linear(4, 2), bias_const=0.3, std=gain)
        self.plain = nn.Linear(4, 2)

    def forward(self, x):
        x = self.body(x)
        return self.head(x) + self.plain(x)


"""


def test_the_layers_take_what_the_function_gives() -> None:
    made = rewritten.clean(FUNCTION + NET)
    assert "layer_init" not in made.text
    params = rewritten.executed(made.text)["Net"](0.5).init(jax.random.key(0), jnp.zeros((1, 8)))["params"]
    body, head, plain = params["body"]["layers_0"], params["head"], params["plain"]
    np.testing.assert_allclose(body["kernel"].T @ body["kernel"], 2 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(head["kernel"].T @ head["kernel"], 0.25 * np.eye(2), atol=1e-6)
    np.testing.assert_allclose(head["bias"], 0.3)
    assert not np.allclose(plain["kernel"].T @ plain["kernel"], 2 * np.eye(2)) and np.any(plain["bias"])


def test_a_function_that_is_called_elsewhere_too_is_refused() -> None:
    found = rewritten.fresh(f"{FUNCTION}{NET}layer = layer_init(nn.Linear(2, 2))\n").report.diagnostics
    assert "MIG204" in {one.code for one in found}

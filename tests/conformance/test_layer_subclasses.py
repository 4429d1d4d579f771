"""Classes that inherit from a layer of torch's, and modules that are built of them."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from weight_port import port_state_dict

MODEL = (Path(__file__).parent.parent / "golden/layer_subclasses/before.py").read_text()


def test_a_model_of_subclasses_gives_the_same() -> None:
    made = rewritten.clean(MODEL)
    torch.manual_seed(0)
    theirs = rewritten.executed(MODEL)["Model"](4, 9)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_()
    image = torch.randn(2, 3, 6, 6)
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made, "Model"))
    ours = rewritten.executed(made.text)["Model"](4, 9)
    assert leaves(ours.init(jax.random.key(0), image.numpy())).keys() == leaves(variables).keys()
    theirs(image).square().sum().backward()
    given, grads = jax.value_and_grad(lambda v: (ours.apply(v, image.numpy()) ** 2).sum())(variables)
    # float32 sums of some hundred terms
    np.testing.assert_allclose(given, theirs(image).square().sum().item(), rtol=1e-5)
    np.testing.assert_allclose(grads["params"]["place"], theirs.place.grad.numpy(), rtol=1e-3, atol=1e-3)
    assert not np.any(grads["params"]["fixed"])


HANDED_ON = """import math

import torch
import torch.nn as nn


class TokenEmbedding(nn.Embedding):
    \"\"\"Tokens, of which 0 is padding.\"\"\"

    def __init__(self, vocab_size, embed_size=6):
        super().__init__(vocab_size, embed_size, padding_idx=0)


class Wide(nn.Linear):
    def __init__(self, n, m, bias=True):
        super(Wide, self).__init__(n, 2 * m, bias=bias)


class Conv(nn.Conv1d):
    def __init__(self, n, m):
        super().__init__(n, m, 3, padding=1)


class Positions(nn.Module):
    def __init__(self, size, length=9):
        super().__init__()
        table = torch.zeros(length, size).float()
        table.require_grad = False
        table[:, 0::2] = torch.sin(torch.arange(length).float().unsqueeze(1) * math.pi)
        self.register_buffer("table", table.unsqueeze(0))

    def forward(self, x):
        return self.table[:, : x.size(1)]


class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.token = TokenEmbedding(n)
        self.places = Positions(self.token.embedding_dim)
        self.wide = Wide(6, 4, bias=False)
        self.out = Wide(m=1, n=8)
        self.row = nn.Sequential(Conv(2, 3), nn.ReLU(), Conv(3, 1))

    def forward(self, x):
        y = self.out(torch.relu(self.wide(self.token(x) + self.places(x))))
        return self.row(y.transpose(1, 2)).mean((1, 2))
"""


def test_constructors_that_hand_their_arguments_on() -> None:
    made = rewritten.clean(HANDED_ON)
    assert 'class TokenEmbedding(PaddedEmbed):\n    """Tokens, of which 0 is padding."""\n' in made.text
    torch.manual_seed(0)
    theirs = rewritten.executed(HANDED_ON)["M"](11)
    words = torch.randint(0, 11, (3, 5))
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made))
    ours = rewritten.executed(made.text)["M"](11)
    assert leaves(ours.init(jax.random.key(0), words.numpy())).keys() == leaves(variables).keys()
    np.testing.assert_allclose(ours.apply(variables, words.numpy()), theirs(words).detach().numpy(), rtol=1e-5)
    theirs(words).square().sum().backward()
    grads = jax.grad(lambda v: (ours.apply(v, words.numpy()) ** 2).sum())(variables)["params"]
    np.testing.assert_allclose(grads["wide"]["kernel"].T, theirs.wide.weight.grad.numpy(), rtol=1e-3, atol=1e-6)
    assert not np.any(grads["token"]["embedding"][0])  # of padding


AS_VALUES = """from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F


class Norm2d(nn.LayerNorm):
    def forward(self, x):
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Half(nn.Linear):
    def forward(self, x):
        return super().forward(x) / 2


class Block(nn.Module):
    def __init__(self, n, m, norm=nn.BatchNorm2d, dense=nn.Linear):
        super().__init__()
        self.conv = nn.Conv2d(n, m, 3, padding=1)
        self.norm = norm(m)
        self.dense = dense(m, m, bias=False)

    def forward(self, x):
        x = self.norm(self.conv(x))
        return self.dense(x.mean((2, 3)))[:, :, None, None] + x


class M(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        norm = norm or partial(Norm2d, eps=0.1)
        self.blocks = nn.Sequential(Block(3, 4), Block(4, 5, norm), Block(5, 5, Norm2d, dense=Half), Norm2d(5))
        self.head = nn.Sequential(norm(5), nn.Flatten(1), Half(5 * 16, 3))

    def forward(self, x):
        return self.head(self.blocks(x))
"""


def test_such_classes_given_as_values_beside_layers_that_want_their_channels_elsewhere() -> None:
    made = rewritten.clean(AS_VALUES)
    torch.manual_seed(0)
    theirs = rewritten.executed(AS_VALUES)["M"]()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    x = torch.randn(6, 3, 4, 4)
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made))
    ours = rewritten.executed(made.text)["M"](training=True)

    def loss(params):
        return (ours.apply({**variables, "params": params}, x.numpy(), mutable=["batch_stats"])[0] ** 2).sum()

    given, grads = jax.value_and_grad(loss)(variables["params"])
    theirs(x).square().sum().backward()
    np.testing.assert_allclose(given, theirs(x).square().sum().item(), rtol=1e-5)
    expected = theirs.blocks[2].norm.weight.grad.numpy()
    np.testing.assert_allclose(grads["blocks"]["layers_2"]["norm_layer"]["scale"], expected, rtol=1e-4, atol=1e-5)


def test_a_class_that_functions_make_is_not_compared() -> None:
    compared = "        norm = norm or partial(Norm2d, eps=0.1)\n"
    asked = AS_VALUES.replace(compared, f"{compared}        self.own = norm == Norm2d\n")
    assert [found.code for found in rewritten.conversion(asked).report.diagnostics] == ["MIG304"]


REFUSED = {
    "a constructor that does more": (
        "class L(nn.BatchNorm1d):\n    def __init__(self, n):\n        super().__init__(n)\n        self.n = n\n"
    ),
    "a constructor and a method": (
        "class L(nn.BatchNorm1d):\n    def __init__(self, n):\n        super().__init__(n)\n\n"
        "    def forward(self, x):\n        return super().forward(x) + 1\n"
    ),
    "a constructor that reads a name of the file": (
        "WIDTH = 3\n\n\nclass L(nn.BatchNorm1d):\n    def __init__(self, n):\n        super().__init__(WIDTH, n)\n"
    ),
    "a weight of the layer": "class L(nn.BatchNorm1d):\n    def forward(self, x):\n        return x * self.weight\n",
    "a layer that is a function": "class L(nn.ReLU):\n    def forward(self, x):\n        return super().forward(x)\n",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_flax_has_not_is_refused(reason: str) -> None:
    made = rewritten.conversion(f"import torch\nfrom torch import nn\n\n\n{REFUSED[reason]}")
    assert [found.code for found in made.report.diagnostics] == ["MIG201"]


def test_a_refused_class_costs_nothing_until_one_is_made() -> None:
    made = rewritten.conversion(f"import torch\nfrom torch import nn\n\n\n{REFUSED['a constructor that does more']}")
    with pytest.raises(NotImplementedError, match="MIG201"):
        rewritten.executed(made.text)["L"](3)

"""Norms that a function chooses with their settings, or makes itself, as pix2pix does."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same, leaves, numpy_state
from weight_port import port_state_dict

SOURCE = """import functools

import torch
from torch import nn


def get_norm_layer(norm_type="instance"):
    if norm_type == "batch":
        norm_layer = functools.partial(nn.BatchNorm2d, affine=True, track_running_stats=True)
    elif norm_type == "instance":
        norm_layer = functools.partial(nn.InstanceNorm2d, affine=False, track_running_stats=False)
    elif norm_type == "group":
        norm_layer = lambda width: nn.GroupNorm(2, width)
    else:
        def norm_layer(width):
            return nn.Identity()
    return norm_layer


class M(nn.Module):
    def __init__(self, norm_layer=nn.BatchNorm2d):
        super().__init__()
        if type(norm_layer) == functools.partial:
            use_bias = norm_layer.func == nn.InstanceNorm2d
        else:
            use_bias = norm_layer == nn.InstanceNorm2d
        layers = [nn.Conv2d(3, 4, 3, bias=use_bias), norm_layer(4), nn.LeakyReLU(0.2, True)]
        layers += [nn.Conv2d(4, 4, 3, bias=use_bias), norm_layer(4)]
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x)


def make(norm_type):
    return M(get_norm_layer(norm_type))


net = make("batch")
print(net(torch.ones(2, 3, 8, 8)))
"""


@pytest.mark.parametrize("norm", ["batch", "instance", "group", "none"])
def test_partial_norms_give_the_same(norm: str) -> None:
    torch.manual_seed(0)
    made = rewritten.clean(SOURCE)
    theirs = rewritten.executed(SOURCE)["make"](norm)
    ours = rewritten.executed(made.text)["make"](norm).clone(training=True)
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made))
    # A norm divides by how much a channel varies: of one that hardly does, it is noise.
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
    assert leaves(ours.init(jax.random.key(0), x)).keys() == leaves(variables).keys()
    given, after = ours.apply(variables, x, mutable=["batch_stats"])
    np.testing.assert_allclose(given, theirs(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    wanted = port_state_dict(numpy_state(theirs), rewritten.model_weights(made)).get("batch_stats", {})
    for path, value in leaves(wanted).items():
        np.testing.assert_allclose(leaves(after["batch_stats"])[path], value, rtol=1e-5, atol=1e-6)


LAMBDAS = """import torch
from torch import nn

# what the blocks are made of
block = lambda width, p=0.5: nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(p))


class M(nn.Module):
    def __init__(self, block=block):
        super().__init__()
        self.blocks = nn.ModuleList([block(4) for _ in range(2)])

    def forward(self, x):
        for each in self.blocks:
            x = each(x)
        return x


net = M(block)
print(net(torch.ones(3, 4)))
"""


def test_a_lambda_that_makes_layers_is_a_function(float64: None) -> None:
    made = rewritten.clean(LAMBDAS)
    assert "\n\n\n# what the blocks are made of\ndef block(width, p=0.5, training=False):\n" in made.text
    theirs = rewritten.executed(LAMBDAS)["M"]().double().eval()
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made))
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    given = rewritten.executed(made.text)["M"]().apply(variables, x)
    np.testing.assert_allclose(given, theirs(torch.from_numpy(x)).detach().numpy(), rtol=1e-10, atol=1e-12)


TABLES = """import torch
from torch import nn

ACTS = {"relu": nn.ReLU, "tanh": nn.Tanh}
NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": None}


class M(nn.Module):
    def __init__(self, act="tanh", norm="batch"):
        super().__init__()
        layers = [nn.Linear(4, 4)]
        norm = NORMS[norm]
        if norm is not None:
            layers.append(norm(4))
        layers.append(ACTS.get(act, nn.ReLU)())
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


net = M()
print(net(torch.ones(3, 4)))
"""


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_layers_are_looked_up_in_a_dict(norm: str, float64: None) -> None:
    made = rewritten.clean(TABLES)
    theirs = rewritten.executed(TABLES)["M"](norm=norm).double()
    variables = port_state_dict(numpy_state(theirs), rewritten.model_weights(made))
    x = np.linspace(-1, 1, 12).reshape(3, 4) ** 2
    ours = rewritten.executed(made.text)["M"](norm=norm).clone(training=True)
    given, _ = ours.apply(variables, x, mutable=["batch_stats"])
    np.testing.assert_allclose(given, theirs(torch.from_numpy(x)).detach().numpy(), rtol=1e-8, atol=1e-10)


SETTINGS = """from functools import partial

import torch
import torch.nn as nn


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class M(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        scaled = partial(Scaled, bias=False)
        conv = partial(nn.Conv1d, kernel_size=1, bias=False)
        self.first = scaled(width, width)
        self.conv = conv(width, 3)

    def forward(self, x):
        return self.conv(torch.relu(self.first(x))[..., None])[..., 0]
"""


def test_settings_that_a_partial_gives_tell_the_weights(float64: None) -> None:
    assert_same(SETTINGS, Sample("M()", (3, 4)))


NOTHING_OR_NORM = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, normed=False):
        super().__init__()
        norm_layer = nn.BatchNorm1d if normed else nn.Identity
        self.net = nn.Sequential(nn.Linear(3, 4), norm_layer(4))
        nn.init.constant_(self.net[0].weight, 0.25)
        nn.init.constant_(self.net[0].bias, 0.5)

    def forward(self, x):
        return self.net(x)


x = torch.arange(6.0).reshape(2, 3)
without, normed = Block(), Block(True)
shown = [without(x).flatten().tolist(), normed(x).flatten().tolist()]
"""


def test_an_identity_takes_whatever_the_layer_in_its_place_takes() -> None:
    assert "def make_identity(*args, training=False, **kwargs):" in rewritten.conversion(NOTHING_OR_NORM).text
    theirs, ours = rewritten.both(NOTHING_OR_NORM)
    np.testing.assert_allclose(ours["shown"], theirs["shown"], rtol=1e-5, atol=1e-6)  # float32

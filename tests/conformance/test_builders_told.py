"""Parts that a function makes and a model takes, where an argument of the model decides their initial weights: the same
distributions as torch's, and the weights of a dict in their places."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

MODEL = """import torch
from torch import nn


class VGG(nn.Module):
    def __init__(self, features, classes=3, init_weights=True):
        super().__init__()
        self.features = features
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Linear(24, classes)
        if init_weights:
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                    nn.init.constant_(m.bias, 0)
                elif isinstance(m, nn.BatchNorm2d):
                    nn.init.constant_(m.weight, 0.5)

    def forward(self, x):
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


def make_layers(widths, batch_norm=False):
    layers = []
    channels = 3
    for width in widths:
        if width == "M":
            layers += [nn.MaxPool2d(2, 2)]
        else:
            conv2d = nn.Conv2d(channels, width, 3, padding=1)
            if batch_norm:
                layers += [conv2d, nn.BatchNorm2d(width), nn.ReLU(True)]
            else:
                layers += [conv2d, nn.ReLU(True)]
            channels = width
    return nn.Sequential(*layers)


def make(batch_norm, weights=None, **kwargs):
    if weights is not None:
        kwargs["init_weights"] = False
    model = VGG(make_layers([16, "M", 24], batch_norm), **kwargs)
    if weights is not None:
        model.load_state_dict(weights.get_state_dict(progress=True))
    return model


def main():
    model = make(True)
    print(model(torch.ones(2, 3, 8, 8)))


"""
HELD = MODEL.replace("(self, features,", "(self, widths, batch_norm,").replace(
    "= features\n", "= make_layers(widths, batch_norm)\n"
)
HELD = HELD.replace('VGG(make_layers([16, "M", 24], batch_norm), **kwargs)', 'VGG([16, "M", 24], batch_norm, **kwargs)')


@pytest.mark.parametrize("source", [MODEL, HELD], ids=["given", "held"])
@pytest.mark.parametrize("init_weights", [True, False])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_an_argument_of_the_model_decides(source: str, batch_norm: bool, init_weights: bool) -> None:
    made = rewritten.clean(source)
    torch.manual_seed(0)
    theirs = rewritten.executed(source)["make"](batch_norm, init_weights=init_weights)
    *_, model = rewritten.executed(made.text)["make"](batch_norm, init_weights=init_weights)
    x = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype="float32").reshape(2, 3, 8, 8)
    ours = leaves(model.init(jax.random.key(0), x))
    ported = leaves(port_state_dict(numpy_state(theirs), rewritten.model_weights(made, "VGG")))
    assert ours.keys() == ported.keys()
    for path, value in ours.items():
        if np.ptp(ported[path]) == 0:
            np.testing.assert_array_equal(value, ported[path], path)
        elif np.ndim(value) > 2:
            assert kolmogorov_smirnov(np.asarray(value), np.asarray(ported[path])) <= SAME_DISTRIBUTION, path
        else:
            assert np.ptp(value) > 0, path


@pytest.mark.parametrize("batch_norm", [True, False])
def test_weights_of_a_dict_find_their_places(batch_norm: bool) -> None:
    theirs = rewritten.executed(MODEL)["make"](batch_norm).eval()
    weights = SimpleNamespace(get_state_dict=lambda progress: numpy_state(theirs))
    params, batch_stats, model = rewritten.executed(rewritten.clean(MODEL).text)["make"](batch_norm, weights)
    x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    given = model.apply({"params": params, "batch_stats": batch_stats}, x.numpy())
    np.testing.assert_allclose(given, theirs(x).detach().numpy(), rtol=1e-5, atol=1e-6)

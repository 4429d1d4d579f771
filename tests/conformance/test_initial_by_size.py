"""Initial weights that a function works out from the sizes of each layer: the same distributions as torch's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

TEXT = """import math

import numpy as np
import torch
import torch.nn as nn


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(60, 80)
        self.conv = nn.Conv2d(40, 60, (3, 2), groups=2)
        self.line = nn.Conv1d(60, 50, 3)
        self.fc = nn.Linear(50, 90)
        for m in self.modules():
            if isinstance(m, {layer}):
                {body}

    def forward(self, x):
        y = self.conv(self.table(x)[..., None].expand(-1, -1, -1, 4))
        return self.fc(self.line(y.mean(-1)).mean(-1))
"""
WIDE = "n = m.kernel_size[0] * m.kernel_size[1] * m.out_channels"
FORMS = {  # the layer, what is done to it, what is written of it in Flax
    "he, by a root": ("nn.Conv2d", [WIDE, "m.weight.data.normal_(0, math.sqrt(2. / n))"], "variance_scaling(2.0, "),
    "he, by a power": ("nn.Conv2d", [WIDE, "nn.init.normal_(m.weight, 0, (2.0 / n) ** 0.5)"], "variance_scaling(2.0, "),
    "in one line": (
        "nn.Conv1d",
        ["m.weight.data.normal_(0, np.sqrt(3 / (m.kernel_size[0] * m.out_channels)))"],
        "variance_scaling(3, ",
    ),
    "by what goes in": (
        "nn.Conv2d",
        ["n = m.weight.size(1) * m.weight.size(2) * m.weight.size(3)", "m.weight.data.normal_(0, math.sqrt(2.0 / n))"],
        '"fan_in", "normal"',
    ),
    "uniform": (
        "nn.Linear",
        ["n = m.in_features", "y = 1.0 / np.sqrt(n)", "m.weight.data.uniform_(-y, y)", "m.bias.data.fill_(0)"],
        "shape[0]",
    ),
    "by the shape": ("nn.Linear", ["nn.init.normal_(m.weight, std=1 / m.weight.shape[0])"], "shape[1]"),
    "a table": ("nn.Embedding", ["nn.init.normal_(m.weight, mean=0, std=m.embedding_dim ** -0.5)"], "shape[1]"),
    "a table, by its fan": ("nn.Embedding", ["nn.init.kaiming_uniform_(m.weight)"], "in_axis=1, out_axis=0"),
    "whatever has a matrix": (
        "nn.Module",
        ['if hasattr(m, "weight") and m.weight.dim() > 1:', "    nn.init.kaiming_uniform_(m.weight.data)"],
        "in_axis=1, out_axis=0",
    ),
    "kernels": (
        "(nn.Linear, nn.Conv1d, nn.Conv2d)",
        ["if m.weight.data.ndim != 2 and len(m.weight.shape) >= 3:", "    nn.init.constant_(m.weight, 0.5)"],
        "constant(0.5)",
    ),
    "not the fan alone": (
        "nn.Conv2d",
        [WIDE, "m.weight.data.normal_(0, math.sqrt(2.0 / (n + 1)))"],
        "lambda key, shape, dtype",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_same_distribution(name: str) -> None:
    layer, body, said = FORMS[name]
    text = TEXT.format(layer=layer, body="\n                ".join(body))
    made = rewritten.clean(text)
    assert said in made.text
    torch.manual_seed(0)
    module = rewritten.executed(text)["M"]()
    ours = rewritten.executed(made.text)["M"]().init(jax.random.key(0), jnp.zeros((1, 40), int))
    state = {key: value.numpy() for key, value in module.state_dict().items()}
    theirs = port_state_dict(state, rewritten.model_weights(made))
    for one, other in zip(jax.tree.leaves(ours["params"]), jax.tree.leaves(theirs["params"]), strict=True):
        assert one.shape == other.shape
        if other.std() > 0:
            assert kolmogorov_smirnov(np.asarray(one).ravel(), other.ravel()) < SAME_DISTRIBUTION
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "layer, line",
    [
        ("nn.Linear", "m.bias.data.uniform_(-1 / m.in_features, 1 / m.in_features)"),  # a bias does not tell them
        ("nn.Conv2d", "m.weight.data.normal_(0, 1 / m.in_channels)"),  # nor does a kernel, of its groups
        ("nn.Conv2d", "m.weight.data.normal_(0, 1 / m.groups)"),
    ],
)
def test_what_a_shape_does_not_tell_is_refused(layer: str, line: str) -> None:
    made = convert(parse("x.py", TEXT.format(layer=layer, body=line)))
    assert "MIG204" in made.report.as_text()

"""Initial values that go by the size of a weight, `1 / math.sqrt(self.weight.size(1))`: as torch draws them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

OWN = """import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import init


class M(nn.Module):
    def __init__(self, inputs=40, outputs=90, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.FloatTensor(outputs, inputs))
        if bias:
            self.bias = nn.Parameter(torch.empty(outputs))
        else:
            self.register_parameter("bias", None)
        self.head = nn.Linear(outputs, 70)
        self.reset_parameters()

    def reset_parameters(self):
        {reset}

    def forward(self, x):
        return self.head(F.linear(x, self.weight, self.bias))
"""
RESETS = {
    "a graph convolution": """stdv = 1. / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)""",
    "as nn.Linear has it": """init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)""",
    "sizes of a layer": """nn.init.normal_(self.weight, 0, 1 / self.head.weight.data.size()[0])
        limit = 3 / self.head.in_features
        self.head.weight.data.uniform_(-limit, limit)
        self.head.bias.data.fill_(self.head.weight.shape[-1])
        nn.init.normal_(self.bias)""",
}


@pytest.mark.parametrize("reset", RESETS)
def test_values_by_the_size_of_a_weight(reset: str) -> None:
    written = OWN.replace("{reset}", RESETS[reset])
    made = rewritten.clean(written)
    assert "fan_in = " not in made.text and "stdv = " not in made.text
    torch.manual_seed(2)
    theirs = leaves(port_state_dict(numpy_state(rewritten.executed(written)["M"]()), rewritten.model_weights(made)))
    ours = leaves(rewritten.executed(made.text)["M"]().init(jax.random.key(1), jnp.zeros((1, 40))))
    assert ours.keys() == theirs.keys()
    for path, wanted in theirs.items():
        assert kolmogorov_smirnov(ours[path].ravel(), wanted.ravel()) <= SAME_DISTRIBUTION, path


def test_a_variable_of_the_constructor_that_comes_later_is_written_out() -> None:
    written = OWN.replace("self.reset_parameters()\n", "n = outputs * 2\n        init.constant_(self.weight, n)\n", 1)
    made = rewritten.clean(written.replace("{reset}", "pass"))
    ours = rewritten.executed(made.text)["M"]().init(jax.random.key(1), jnp.zeros((1, 40)))
    assert (ours["params"]["weight"] == 180).all()


def test_a_variable_that_is_not_known_there_is_refused() -> None:
    later = "for n in [2, 3]:\n            pass\n        init.constant_(self.weight, n)\n"
    written = OWN.replace("self.reset_parameters()\n", later, 1).replace("{reset}", "pass")
    found = rewritten.conversion(written).report.as_text()
    assert "MIG204 `init.constant_(self.weight, n)` depends on the variable n" in found

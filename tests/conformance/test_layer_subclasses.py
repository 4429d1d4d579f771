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


REFUSED = {
    "a constructor of its own": "class L(nn.Linear):\n    def __init__(self, n):\n        super().__init__(n, n)\n",
    "a weight of the layer": "class L(nn.Linear):\n    def forward(self, x):\n        return x @ self.weight.T\n",
    "a layer that is a function": "class L(nn.ReLU):\n    def forward(self, x):\n        return super().forward(x)\n",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_flax_has_not_is_refused(reason: str) -> None:
    made = rewritten.conversion(f"import torch\nfrom torch import nn\n\n\n{REFUSED[reason]}")
    assert [found.code for found in made.report.diagnostics] == ["MIG201"]


def test_a_refused_class_costs_nothing_until_one_is_made() -> None:
    made = rewritten.conversion(f"import torch\nfrom torch import nn\n\n\n{REFUSED['a constructor of its own']}")
    with pytest.raises(NotImplementedError, match="MIG201"):
        rewritten.executed(made.text)["L"](3)

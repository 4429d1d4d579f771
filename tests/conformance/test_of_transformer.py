"""Classes that inherit from `nn.Transformer` for its parts: losses and initial weights are torch's."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, trained
from weight_port import port_state_dict

TEXT = """import torch
import torch.nn as nn


class Net(nn.Transformer):
    def __init__(self, words, width, layers=2):
        super(Net, self).__init__(GIVEN)
        self.embed = nn.Embedding(words, width)
        OWN

    def forward(self, x, y):
        memory = self.encoder(self.embed(x))
        return FORWARD


model = Net(11, 8)
x, y = torch.arange(12).reshape(4, 3) % 11, torch.arange(15).reshape(5, 3) % 11
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(3):
    loss = (model(x, y) - 0.3).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
GIVEN = "d_model=width, nhead=2, num_encoder_layers=layers, num_decoder_layers=1, dim_feedforward=6, dropout=0.0"
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")  # torch's, of its own parts
FORMS = {
    "both parts": (GIVEN, "self.head = nn.Linear(width, 3)", "self.head(self.decoder(self.embed(y), memory))"),
    "a decoder of its own": (GIVEN, "self.decoder = nn.Linear(width, words)", "self.decoder(memory)"),
    "by position": ("width, 4, 1, 2, 5, 0.0, 'gelu'", "pass", "self.decoder(self.embed(y), memory)"),
    "norms first": (f"{GIVEN}, norm_first=True, layer_norm_eps=1e-3, bias=False", "pass", "memory.sum(0)"),
}


def source(form: str) -> str:
    given, own, forward = FORMS[form]
    return TEXT.replace("GIVEN", given).replace("OWN", own).replace("FORWARD", forward)


@pytest.mark.parametrize("form", FORMS)
def test_training_is_torchs(form: str, float64: None) -> None:
    theirs, ours = trained(source(form))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_initial_weights_are_drawn_alike() -> None:
    """torch fills every matrix of the parts it makes with xavier_uniform, whose bound their shapes tell."""
    made = rewritten.clean(source("both parts"))
    ours = rewritten.executed(made.text.partition("opt_state =")[0])["params"]
    seeded = "import torch\ntorch.manual_seed(5)\n" + source("both parts").partition("optimizer =")[0]
    model = rewritten.executed(seeded)["model"]
    theirs = port_state_dict(
        {key: value.numpy() for key, value in model.state_dict().items()}, rewritten.model_weights(made, "Net")
    )
    found = [
        (float(abs(one).max()), float(abs(other).max()), jax.tree_util.keystr(path))
        for (path, one), other in zip(
            jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs["params"]), strict=True
        )
        if one.ndim > 1
    ]
    assert len(found) > 10
    for one, other, path in found:
        assert one == pytest.approx(other, rel=0.3), path  # the largest of 36 or more that are drawn


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.decoder(self.embed(y), memory)", "super().forward(self.embed(x), self.embed(y))"),
        (GIVEN, "**dict(d_model=width)"),
        (GIVEN, f"{GIVEN}, custom_encoder=nn.Linear(width, width)"),
        ("memory = ", "self._reset_parameters()\n        memory = "),
    ],
)
def test_others_need_a_person(old: str, new: str) -> None:
    text = source("both parts")
    assert old in text
    assert rewritten.conversion(text.replace(old, new)).report.exit_code == 1

"""Weights that a script fills by name, of models that functions make: as initialisers, or where the line stands."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

NET = """import torch
import torch.nn as nn
import torch.nn.functional as F


class M(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv = nn.Conv2d(1, 30, 3)
        self.fc = nn.Linear(480, n)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


"""
PERHAPS_LOADED = """def build(n, path=None):
    model = M(n)
    if path:
        model.load_state_dict(torch.load(path))
    return model


"""
TRAINED = """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.ones(4, 1, 6, 6), torch.ones(4, 60)
optimizer.zero_grad()
loss = F.mse_loss(model(x), y)
loss.backward()
"""
FILLED = """model = build(60)
other = build(60).eval()
model.fc.weight.data.normal_(mean=0.0, std=0.3)
model.fc.bias.data.zero_()
nn.init.kaiming_normal_(model.conv.weight, mode="fan_out")
nn.init.uniform_(model.conv.bias, 0.1, 0.2)
with torch.no_grad():
    other.fc.bias.fill_(2)
print(other(torch.ones(4, 1, 6, 6)).mean().item())
"""


def alike(ours: dict[str, np.ndarray], theirs: torch.nn.Module, made) -> None:
    """Every weight has torch's distribution, and those without one torch's numbers."""
    wanted = leaves(port_state_dict(numpy_state(theirs), rewritten.model_weights(made)))
    assert ours.keys() == wanted.keys()
    for path, values in wanted.items():
        if np.ptp(values) == 0:
            np.testing.assert_array_equal(ours[path], values, path)
        elif values.size > 1:
            assert kolmogorov_smirnov(np.asarray(ours[path]), values) <= SAME_DISTRIBUTION, path


def test_a_model_that_may_have_its_weights_from_a_file_is_filled_where_the_line_stands() -> None:
    source = NET + PERHAPS_LOADED + FILLED + TRAINED
    made = rewritten.clean(source)
    assert 'model_params["fc"]["bias"] = jnp.zeros_like(model_params["fc"]["bias"])' in made.text
    theirs, ours = rewritten.both(source)
    for name in ("model", "other"):
        alike(leaves({"params": ours[f"{name}_params"]}), theirs[name], made)


IN_FUNCTIONS = {
    "perhaps": "def fill(m):\n    nn.init.zeros_(m.fc.weight)\n\n\nif torch.ones(2).sum() > 3:\n    fill(model)\n",
    "by its argument": "def fill(m, std):\n    nn.init.normal_(m.fc.weight, std=std)\n\n\nfill(model, 0.1)\n",
    "in a loop": "for fold in range(2):\n    nn.init.zeros_(model.fc.bias)\n",
}


@pytest.mark.parametrize("form", IN_FUNCTIONS)
def test_what_no_initialiser_can_say_is_filled_where_it_stands(form: str) -> None:
    source = NET + "model = M(60)\n" + IN_FUNCTIONS[form] + TRAINED
    theirs, ours = rewritten.both(source)
    alike(leaves({"params": ours["params"]}), theirs["model"], rewritten.clean(source))


def test_a_weight_filled_anew_in_training() -> None:
    source = NET + "model = M(60)\n" + TRAINED + "optimizer.step()\nfor step in range(2):\n"
    source += "    nn.init.xavier_uniform_(model.fc.weight)\n    print(model(x).mean().item())\n"
    theirs, ours = rewritten.both(source)
    found, wanted = np.asarray(ours["params"]["fc"]["kernel"]), theirs["model"].fc.weight.detach().numpy().T
    assert kolmogorov_smirnov(found, wanted) <= SAME_DISTRIBUTION


def test_the_model_of_a_builder_takes_initialisers() -> None:
    """It is one model to its maker and to the caller."""
    source = NET + "def build(n):\n    model = M(n)\n    return model\n\n\n"
    source += "def init(m):\n    if isinstance(m, nn.Linear):\n        nn.init.xavier_uniform_(m.weight)\n\n\n"
    source += "model = build(60)\nmodel.apply(init)\nnn.init.constant_(model.conv.bias, 0.5)\n" + TRAINED
    made = rewritten.clean(source)
    assert "kernel_init=nn.initializers.xavier_uniform()" in made.text and '["conv"]["bias"] =' not in made.text
    theirs, ours = rewritten.both(source)
    alike(leaves({"params": ours["params"]}), theirs["model"], made)


@pytest.mark.parametrize("call", ["nn.init.orthogonal_(model.fc.weight)", "nn.init.trunc_normal_(model.fc.weight)"])
def test_what_is_drawn_in_another_way_there_is_refused(call: str) -> None:
    made = rewritten.conversion(NET + PERHAPS_LOADED + f"model = build(60)\n{call}\n" + TRAINED)
    assert [found.code for found in made.report.diagnostics] == ["MIG204"]

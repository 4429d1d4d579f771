"""Dicts that the constructor of a module is given: the keys of what it makes of them are the script's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import numpy_state
from weight_port import port_state_dict

SCRIPT = """import torch
import torch.nn as nn


class Heads(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleDict({name: nn.Linear(8, n) for name, n in tasks.items()})
        self.scales = nn.ParameterDict({name: nn.Parameter(torch.ones(n)) for name, n in tasks.items()})
        if "more" in tasks:
            self.more = nn.Linear(4, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {name: head(h) * self.scales[name] for name, head in self.heads.items()}


MADE
x = torch.arange(8.0).reshape(2, 4) / 8
with torch.no_grad():
    found = model(x)
"""
WRITTEN = ['model = Heads({"cls": 3, "reg": 1})', 'tasks = {"cls": 3, "reg": 1}\nmodel = Heads(tasks)']
CHANGED = [
    'tasks = {"cls": 3}\ntasks["reg"] = 1\nmodel = Heads(tasks)',
    'tasks = {"cls": 3}\ntasks.update(reg=1)\nmodel = Heads(tasks)',
    'tasks = {"cls": 3, "reg": 1}\ndel tasks["reg"]\nmodel = Heads(tasks)',
    'tasks = dict.fromkeys(["cls", "reg"], 2)\nmodel = Heads(tasks)',
]


@pytest.mark.parametrize("made", WRITTEN)
def test_modules_and_weights_by_their_keys(made: str) -> None:
    source = SCRIPT.replace("MADE", made)
    converted = rewritten.clean(source)
    assert "for name, n in self.tasks.items()" in converted.text
    theirs, ours = rewritten.executed(source), rewritten.executed(converted.text)
    variables = port_state_dict(numpy_state(theirs["model"]), rewritten.model_weights(converted, "Heads"))
    found = ours["model"].apply(variables, theirs["x"].numpy())
    assert list(found) == list(theirs["found"]) == ["cls", "reg"]
    for key, expected in theirs["found"].items():
        assert isinstance(expected, torch.Tensor)
        np.testing.assert_allclose(found[key], expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("made", CHANGED)
def test_a_dict_that_is_not_written_out_is_refused(made: str) -> None:
    found = rewritten.conversion(SCRIPT.replace("MADE", made)).report.diagnostics
    assert {"MIG201"} <= {one.code for one in found}

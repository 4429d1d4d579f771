"""`.data` of tensors that are kept by the names of weights: set on an array of JAX's it would change nothing, in
silence."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = """import torch
import torch.nn as nn


class EMA:
    def __init__(self):
        self.shadow = {}

    def register(self, module):
        for name, param in module.named_parameters():
            self.shadow[name] = param.data.clone()

    def update(self, module):
        for name, param in module.named_parameters():
            self.shadow[name].data = MADE
"""
LOADED = """
    def load_state_dict(self, state_dict):
        self.shadow = state_dict
"""
MADE = "0.1 * param.data + 0.9 * self.shadow[name].data"
USE = """

model = nn.Linear(3, 2)
ema = EMA()
ema.register(model)
ema.update(model)
"""


@pytest.mark.parametrize("loaded", ["", LOADED])
def test_elements_are_set(loaded: str) -> None:
    made = convert(parse("x.py", (HEAD + loaded + USE).replace("MADE", MADE)))
    assert not made.report.diagnostics, made.report.as_text()
    assert "self.shadow[name] = 0.1 * param + 0.9 * self.shadow[name]\n" in made.text


def test_what_has_another_name() -> None:
    made = convert(parse("x.py", (HEAD + USE).replace("MADE", "param.data")))
    assert [each.code for each in made.report.diagnostics] == ["MIG303"], made.report.as_text()

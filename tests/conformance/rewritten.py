"""Rewriting in memory, and running what comes out."""

from __future__ import annotations

import functools
from typing import Any

from migrate.files.source import parse
from migrate.manifest import ModelWeights
from migrate.pipeline import Conversion, convert

NET = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        nn.init.constant_(self.fc.weight, 0.5)
        nn.init.constant_(self.fc.bias, 0.5)

    def forward(self, x):
        return self.fc(x)


"""  # a model of four numbers, whose weights start alike on both sides


@functools.cache
def conversion(source: str) -> Conversion:
    return convert(parse("x.py", source))


def fresh(source: str) -> Conversion:
    """Not remembered, for tests that change the rules."""
    return convert(parse("x.py", source))


def clean(source: str) -> Conversion:
    """A conversion that needs nothing done by hand."""
    made = conversion(source)
    assert made.report.exit_code == 0, made.report.as_text()
    return made


def executed(text: str) -> dict[str, Any]:
    """The names that a Python text defines, original or rewritten."""
    names: dict[str, Any] = {"__name__": "executed"}
    exec(compile(text, "executed.py", "exec", dont_inherit=True), names)
    return names


def both(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names that a text defines, and those of its rewrite, which needs nothing done by hand."""
    return executed(text), executed(clean(text).text)


def model_weights(made: Conversion, name: str = "M") -> ModelWeights:
    return next(model for model in made.manifest.models if model.name == name)


def returned(text: str) -> str:
    """The expression of the last `return` of a text."""
    return text.rpartition("return ")[2].strip()

"""Parts that are taken out of a model once it has its weights (GoogLeNet's auxiliary heads): a copy of the Flax module
with the field that decides them, where it decides them alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.files.source import parse
from migrate.pipeline import Conversion, convert

SCRIPT = """\
import torch
import torch.nn as nn
from published import Published


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.fc = nn.Linear(width, 3)

    def forward(self, x):
        return self.fc(self.norm(x))


class Net(nn.Module):
    def __init__(self, aux_logits=True, width=8):
        super().__init__()
        self.aux_logits = aux_logits
        self.stem = nn.Linear(4, width)
        {made}
        self.head = Head(width)

    def forward(self, x):
        x = self.stem(x)
        aux = self.aux(x) if self.aux is not None and self.training else None
        if self.training and self.aux_logits:
            return self.head(x), aux
        return self.head(x)


def net(published: Published = None, keep=False, **kwargs):
    model = Net(**kwargs)
    if published is not None:
        {before}
        model.load_state_dict(published.get_state_dict())
        if not keep:
            {taken}
    return model
"""
OR_NONE = "if aux_logits:\n            self.aux = Head(width)\n        else:\n            self.aux = None"
NONE_FIRST = "self.aux = None\n        if aux_logits:\n            self.aux = Head(width)"
TAKEN = "model.aux_logits = False\n            model.aux = None"
USUAL = {"made": OR_NONE, "taken": TAKEN, "before": "pass"}


def converted(**given: str) -> Conversion:
    return convert(parse("net.py", SCRIPT.format(**{**USUAL, **given})))


@pytest.mark.parametrize("made", [OR_NONE, NONE_FIRST])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_copy_without_them(made: str, keep: bool, training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "published", SimpleNamespace(Published=object))
    conversion = converted(made=made)
    assert not conversion.report.diagnostics
    theirs: dict[str, Any] = {"__name__": __name__}
    ours: dict[str, Any] = {"__name__": __name__}
    exec(SCRIPT.format(**{**USUAL, "made": made}), theirs)
    exec(conversion.text, ours)
    weights = theirs["Net"]().state_dict()
    given = SimpleNamespace(get_state_dict=lambda: weights)
    arrays = SimpleNamespace(get_state_dict=lambda: {name: value.numpy() for name, value in weights.items()})
    model = theirs["net"](given, keep).train(training)
    params, batch_stats, module = ours["net"](arrays, keep)
    assert ("aux" in params) == ("aux" in batch_stats) == keep == module.aux_logits
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    wanted = model(torch.from_numpy(x))
    variables = {"params": params, "batch_stats": batch_stats}
    made_of_it, changed = module.clone(training=training).apply(variables, x, mutable=["batch_stats"])
    both = (made_of_it, wanted) if keep and training else ((made_of_it,), (wanted,))
    for mine, other in zip(*both, strict=True):
        np.testing.assert_allclose(mine, other.detach(), atol=1e-5)
    stats = changed["batch_stats"] if training else batch_stats
    np.testing.assert_allclose(stats["head"]["norm"]["mean"], model.head.norm.running_mean, atol=1e-6)
    assert stats.keys() == ({"aux", "head"} if keep else {"head"})


@pytest.mark.parametrize(
    "given",
    [
        {"taken": "model.aux_logits = False"},
        {"taken": "model.aux = None"},
        {"taken": "model.aux_logits = False\n            model.head = None"},
        {"made": OR_NONE + "\n        width = width if aux_logits else 2 * width"},
        {"made": NONE_FIRST.replace("aux_logits:", "aux_logits and width > 4:")},
        {"made": OR_NONE + "\n        self.aux = Head(width)"},
        {"before": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"},
    ],
)
def test_refused_where_the_field_says_something_else(given: dict[str, str]) -> None:
    assert "MIG204" in {one.code for one in converted(**given).report.diagnostics}


MAYBE = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, aux=True):
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.aux = None
        if aux:
            self.aux = nn.Linear(4, 2)
        self.last = nn.Linear(2, 2)
        if not aux:
            self.last = None

    def forward(self, x):
        y = self.head(x)
        if self.last is not None:
            y = self.last(y)
        return y if self.aux is None else y + self.aux(x)
"""


@pytest.mark.parametrize("aux", [True, False])
def test_a_part_that_may_be_none(aux: bool) -> None:
    """Also under the name of an argument. A checkpoint of a model without it has no weights for it."""
    conversion = convert(parse("net.py", MAYBE))
    assert not conversion.report.diagnostics
    optional = {leaf.torch for leaf in conversion.manifest.models[0].leaves if leaf.optional}
    assert optional == {"aux.weight", "aux.bias", "last.weight", "last.bias"}
    ours: dict[str, Any] = {"__name__": __name__}
    exec(conversion.text, ours)
    params = ours["Net"](aux).init(jax.random.key(0), jnp.ones((2, 4)))["params"]
    assert params.keys() == ({"head", "aux_layer", "last"} if aux else {"head"})

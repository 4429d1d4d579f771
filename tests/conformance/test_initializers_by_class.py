"""Initial weights that an initialising function finds by the class that holds them: the distributions are torch's."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

from migrate.pipeline import Conversion
from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

SOURCE = (Path(__file__).parent.parent / "golden/initial_weights_by_class/before.py").read_text()


@functools.cache
def both() -> tuple[Conversion, dict[str, Any], dict[str, Any]]:
    """The rewrite, and what the source and the rewrite define."""
    conversion = rewritten.clean(SOURCE)
    return conversion, rewritten.executed(SOURCE), rewritten.executed(conversion.text)


def made(name: str, shape: tuple[int, ...], *arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The initial weights of a class in torch, ported, and in the rewrite. An argument that starts with a colon names
    a class of the source."""
    conversion, source, output = both()
    torch.manual_seed(0)

    def of(namespace: dict[str, Any]) -> Any:
        given = [namespace[one[1:]] if isinstance(one, str) and one[0] == ":" else one for one in arguments]
        return namespace[name](*given)

    theirs = numpy_state(of(source))
    variables = of(output).init(jax.random.key(0), np.zeros(shape, "float32"))
    weights = rewritten.model_weights(conversion, name)
    return leaves(port_state_dict(theirs, weights)["params"]), leaves(variables["params"])


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("block", ["Plain", "Narrow"])
def test_a_field_says_which_blocks_start_as_identities(block: str, identity: bool) -> None:
    theirs, ours = made("Net", (1, 96, 2, 2), f":{block}", 96, 2, None, identity)
    assert ours.keys() == theirs.keys()
    zero = {path for path, value in theirs.items() if path.endswith(("scale", "kernel")) and not np.any(value)}
    assert len(zero) == {"Plain": 2, "Narrow": 4}[block] * identity
    for path, value in ours.items():
        assert kolmogorov_smirnov(np.asarray(value), np.asarray(theirs[path])) <= SAME_DISTRIBUTION, path


def test_a_class_that_apply_meets_after_its_layers_has_the_last_word() -> None:
    theirs, ours = made("Classifier", (1, 4))
    assert ours.keys() == theirs.keys()
    for path in ("head/out/kernel", "head/scale", "head/out/bias", "body/bias"):
        np.testing.assert_array_equal(ours[path], theirs[path])


OVER_PARTS = """import torch
import torch.nn as nn


class M(nn.Module):
    def __init__(self, count=50):
        super().__init__()
        self.user = nn.Embedding(count, 40)
        self.item = nn.Embedding(count, 30)
        self.head = nn.Linear(70, 2)
        self.tail = nn.Linear(2, 3)
        for table in (self.user, self.item):
            table.weight.data.uniform_(2.0, 3.0)
        for layer in [self.head, self.tail]:
            nn.init.constant_(layer.weight, 0.5)
            layer.bias.data.zero_()

    def forward(self, u):
        return self.tail(self.head(torch.cat([self.user(u), self.item(u)], dim=1)))
"""


def test_a_loop_over_parts_of_the_module() -> None:
    """Each of them is drawn in its range, and no other layer changes."""
    made = rewritten.executed(rewritten.clean(OVER_PARTS).text)["M"]()
    params = made.init(jax.random.key(0), np.zeros(3, np.int32))["params"]
    theirs = rewritten.executed(OVER_PARTS)["M"]()
    for name in ("user", "item"):
        ours, torchs = np.asarray(params[name]["embedding"]), getattr(theirs, name).weight.detach().numpy()
        assert ours.min() >= 2.0 and ours.max() <= 3.0
        assert kolmogorov_smirnov(ours.ravel(), torchs.ravel()) < SAME_DISTRIBUTION
    for name in ("head", "tail"):
        assert (np.asarray(params[name]["kernel"]) == 0.5).all()
        assert (np.asarray(params[name]["bias"]) == 0).all()


SHARED = """import torch.nn as nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Given(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.weight)

    def forward(self, x):
        return self.block(x)


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
OTHER

    def forward(self, x):
        return self.block(x)
"""
LOOP = """        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.weight)"""


def test_a_block_that_another_class_leaves_as_it_is() -> None:
    """One class of Flax's cannot start in two ways; where both give the same, it need not."""
    made = rewritten.fresh(SHARED.replace("OTHER", ""))
    assert ["modules of Other have the" in found.message for found in made.report.diagnostics] == [True]
    assert not rewritten.clean(SHARED.replace("OTHER", LOOP)).report.diagnostics


TRIED = """import torch.nn as nn


def fill(m):
    if m.__class__.__name__.find("Conv") != -1:
        try:
            nn.init.constant_(m.weight.data, 0.1)
            m.bias.data.fill_(0.3)
        except AttributeError:
            print("passed by", m.__class__.__name__)


class ConvBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, bias=False)
        self.second = nn.Conv2d(4, 4, 1)
        self.apply(fill)

    def forward(self, x):
        return self.second(self.first(x))
"""


def test_what_lacks_a_weight_is_passed_by() -> None:
    """Up to the weight that is missing, it is filled; what is printed of it is told."""
    made = rewritten.clean(TRIED)
    params = rewritten.executed(made.text)["ConvBlock"]().init(jax.random.key(0), np.zeros((1, 5, 5, 3)))["params"]
    found = {"/".join((name, leaf)): np.unique(value) for name, part in params.items() for leaf, value in part.items()}
    wanted = {"first/kernel": 0.1, "second/kernel": 0.1, "second/bias": 0.3}
    assert found == {name: np.float32(value) for name, value in wanted.items()}
    assert [one.code for one in made.report.diagnostics] == ["MIG518"]
    assert rewritten.conversion(TRIED.replace("AttributeError", "ValueError")).report.exit_code == 1

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

"""Initial weights of modules further inside, whose class makes others as well: the same distributions as torch's."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize(("golden", "matrices"), [("initial_weights_inside", 16), ("initial_weights_by_index", 4)])
def test_some_modules_of_a_class_start_otherwise_than_the_rest(golden: str, matrices: int) -> None:
    model = (GOLDEN / golden / "before.py").read_text()
    made = rewritten.clean(model)
    torch.manual_seed(0)
    theirs = rewritten.executed(model)["Model"](48, 2)
    ported = leaves(port_state_dict(numpy_state(theirs), rewritten.model_weights(made, "Model")))
    ours = leaves(
        rewritten.executed(made.text)["Model"](48, 2).init(jax.random.key(0), np.zeros((3, 1, 48), "float32"))
    )
    assert ours.keys() == ported.keys()
    drawn = {path: value for path, value in ours.items() if np.ndim(value) > 1}
    assert len(drawn) == matrices
    for path, value in drawn.items():
        assert kolmogorov_smirnov(np.asarray(value), np.asarray(ported[path])) <= SAME_DISTRIBUTION, path

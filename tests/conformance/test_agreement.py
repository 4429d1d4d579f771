"""The committed measure of how far rules agree with torch on torch's own samples (`migrate/rules/agreement.json`).

The whole takes minutes: `python -m tests.conformance.opinfo`. Here a part of it is measured anew.
"""

from __future__ import annotations

import json

import pytest
import torch

from migrate.rules import agreement
from migrate.rules.agreement import FILE, RAISES
from tests.conformance.opinfo.__main__ import COUNTED, counted, described, measure, names

# One of each sort: pairs with numbers, an axis or none, several results, indices, an operator, refusals, random draws.
AGAIN = (
    "torch.amax",
    "torch.clamp",
    "torch.gather",
    "torch.topk",
    "torch.nn.functional.smooth_l1_loss",
    "torch.cdist",
    "torch.bernoulli",
    "operator floor_divide",
)


@pytest.mark.parametrize("api", AGAIN)
def test_what_is_measured_anew_is_what_is_committed(api: str) -> None:
    found = measure(api)
    said = [described(one) for one in found if one.verdict in COUNTED[1:] or one.unshown]
    assert counted(found) == agreement.measured()[api], "\n".join(said)


def test_everything_that_torch_has_samples_for_is_measured() -> None:
    committed = json.loads(FILE.read_text())
    assert committed["torch"] == torch.__version__.split("+")[0]
    assert list(committed["apis"]) == sorted(names())


def test_every_sample_agrees_or_is_refused_by_a_code() -> None:
    """But for those of which JAX raises an error, for a reason that is stated: none differs in silence."""
    assert not agreement.total().differs
    assert {name for name, found in agreement.measured().items() if found.raises} == set(RAISES)
    assert agreement.total().raises <= 8


def test_most_samples_agree() -> None:
    total = agreement.total()
    assert total.agrees / total.samples > 0.85
    assert total.unshown / total.samples < 0.05

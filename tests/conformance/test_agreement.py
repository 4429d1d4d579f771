"""The committed measure of how far rules agree with torch on torch's own samples (`migrate/rules/agreement.json`).

The whole takes minutes: `python -m tests.conformance.opinfo`. Here a part of it is measured anew.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch

from migrate.rules import agreement
from migrate.rules.agreement import DIFFERS, FILE, RAISES, Agreement
from tests.conformance.opinfo.__main__ import COUNTED, measure, names

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
    counts = Counter(one.verdict for one in found)
    said = [f"{one.verdict} {one.sample.text}: {one.why}" for one in found if one.verdict in COUNTED[1:]]
    assert Agreement(*(counts[verdict] for verdict in COUNTED)) == agreement.measured()[api], "\n".join(said)


def test_everything_that_torch_has_samples_for_is_measured() -> None:
    committed = json.loads(FILE.read_text())
    assert committed["torch"] == torch.__version__.split("+")[0]
    assert list(committed["apis"]) == sorted(names())


def test_what_differs_has_a_reason() -> None:
    differing = {name for name, found in agreement.measured().items() if found.differs}
    assert differing == set(DIFFERS)


def test_what_raises_has_a_reason() -> None:
    raising = {name for name, found in agreement.measured().items() if found.raises}
    assert raising == set(RAISES)


def test_most_samples_agree() -> None:
    total = agreement.total()
    assert total.agrees / (total.samples - total.refused) > 0.9
    assert (total.raises + total.differs) / total.samples < 0.015

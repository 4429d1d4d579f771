"""Loops over loaders in the forms that scripts have them in: each trains a model that starts from constants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import itertools
from itertools import cycle, islice
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from tqdm import tqdm

x, y = torch.linspace(-1, 1, 24).reshape(8, 3), torch.linspace(0, 1, 8).reshape(8, 1)
DATA
net = nn.Linear(3, 1)
nn.init.constant_(net.weight, 0.5)
nn.init.zeros_(net.bias)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
LOOP
"""
LOADER = "loader = DataLoader(TensorDataset(x, y), batch_size=4)"
STEP = """
    optimizer.zero_grad()
    loss = (net(a) - b).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())"""
INNER = STEP.replace("\n", "\n    ")
STREAM = """class Stream(IterableDataset):
    def __iter__(self):
        for n in range(8):
            yield x[n], y[n]


loader = DataLoader(Stream(), batch_size=4)"""
FORMS = {
    "with a bar": (LOADER, "with tqdm(loader, unit='batch') as bar:\n    for a, b in bar:" + INNER),
    "a bar by name": (LOADER, "bar = tqdm(loader)\nfor a, b in bar:" + STEP),
    "round and round": (LOADER, "batches = cycle(loader)\nfor _ in range(3):\n    a, b = next(batches)" + STEP),
    "round and round, counted": (LOADER, "for n, (a, b) in zip(range(3), cycle(loader)):" + STEP),
    "two in one": (LOADER, "for (a, _), (_, b) in zip(itertools.cycle(loader), loader):" + STEP),
    "one after another": (LOADER, "for a, b in itertools.chain(loader, loader):" + STEP),
    "the first ones": (LOADER, "for n, (a, b) in enumerate(islice(loader, 1)):" + STEP),
    "what is gone through once": (STREAM, "for a, b in loader:" + STEP),
    "bound again": (
        "loader = DataLoader(TensorDataset(torch.zeros(2, 2, 5)), batch_size=1)",
        f"{LOADER}\nfor a, b in loader:" + STEP,
    ),
}


@pytest.mark.parametrize(("data", "loop"), FORMS.values(), ids=FORMS)
def test_forms(data: str, loop: str) -> None:
    theirs, ours = rewritten.both(HEAD.replace("DATA", data).replace("LOOP", loop))
    assert len(theirs["losses"]) == len(ours["losses"]) > 0
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


def test_a_stream_that_is_its_own_iterator_is_not_taken_from() -> None:
    """An example of it would be missing from the training: there are zeros in its place."""
    data = STREAM.replace(
        "    def __iter__(self):\n        for n in range(8):\n            yield x[n], y[n]\n",
        "    def __init__(self):\n        self.n = 0\n\n    def __iter__(self):\n        return self\n\n"
        "    def __next__(self):\n        self.n += 1\n        if self.n > 8:\n            raise StopIteration\n"
        "        return x[self.n - 1], y[self.n - 1]\n",
    )
    made = rewritten.conversion(HEAD.replace("DATA", data).replace("LOOP", "for a, b in loader:" + STEP))
    assert "next(iter(loader.dataset))" not in made.text
    codes = {found.code for found in made.report.diagnostics}
    assert codes == {"MIG402"} or (not codes and "jnp.zeros((1, 3))" in made.text)


UNTOLD = """def batches():
    for start in range(0, 8, 4):
        yield {"a": x[start : start + 4], "b": y[start : start + 4]}.items()


for pairs in batches():
    given = dict(pairs)
    a, b = given["a"], given["b"]"""


def test_weights_are_not_made_anew_at_each_turn() -> None:
    """Where the first input is only there inside of the loop, either zeros serve or a person has to."""
    made = rewritten.conversion(HEAD.replace("DATA", "").replace("LOOP", UNTOLD + STEP))
    before, _, inside = made.text.partition("for pairs in")
    assert "net.init(" not in inside
    assert "net.init(" in before or "MIG402" in {found.code for found in made.report.diagnostics}

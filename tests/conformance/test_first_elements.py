"""Examples of models that are given what is written out in lists and dicts: the first element, where it stands."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
from torch import nn

net = nn.Linear(3, 2)
for p in net.parameters():
    nn.init.constant_(p, 0.3)
outputs = []
LOOP
"""
ROW = '{"a": torch.ones(2, 3), "b": torch.zeros(1, 3)}'
LOOPS = {
    "keys": f"data = {ROW}\nfor k in data:\n    outputs.append(net(data[k]).sum().item())",
    "keys()": f"data = {ROW}\nfor k in data.keys():\n    outputs.append(net(data[k]).sum().item())",
    "values": f"for x in {ROW}.values():\n    outputs.append(net(x).sum().item())",
    "items": f"data = {ROW}\nfor name, x in data.items():\n    outputs.append(net(x).sum().item())",
    "a row of each phase": 'sets = {"train": [torch.ones(2, 3)], "val": [torch.zeros(1, 3)]}\n'
    'for phase in ["train", "val"]:\n    for x in sets[phase]:\n        outputs.append(net(x).sum().item())',
    "batches in dicts": f"for batch in [{ROW}, {ROW}]:\n    batch = {{k: v.to('cpu') for k, v in batch.items()}}\n"
    '    outputs.append(net(batch["a"]).sum().item())',
    "pairs": "for x, y in [(torch.ones(2, 3), 1), (torch.ones(1, 3), 2)]:\n"
    "    outputs.append(y + net(x).mean().item())",
    "a star": "rows = [torch.ones(1, 3)]\nfor x in [*rows, torch.ones(2, 3)]:\n"
    "    outputs.append(net(x).mean().item())",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_outputs_are_torchs(loop: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("LOOP", loop))
    np.testing.assert_allclose(ours["outputs"], theirs["outputs"], rtol=1e-5)


@pytest.mark.parametrize("name", ["keys", "items", "batches in dicts", "pairs"])
def test_the_element_stands_where_the_model_is_made(name: str) -> None:
    made = rewritten.clean(SCRIPT.replace("LOOP", LOOPS[name])).text
    assert "net.init(subkey, jnp.ones((2, 3)))" in made


def test_several_models_made_at_once() -> None:
    text = """import torch
from torch import nn


def made():
    first, second = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)), nn.Linear(3, 1)
    for p in first.parameters():
        nn.init.constant_(p, 0.3)
    for p in second.parameters():
        nn.init.constant_(p, 0.2)
    first.eval()
    return second(first(torch.ones(1, 2))).item()


y = made()
"""
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["y"], theirs["y"], rtol=1e-6)

"""What shows how far a loop is gives what it is given, in the order of its own arguments."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SOURCE = """import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
IMPORT

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(8, 3), torch.ones(8, 1)), batch_size=4)
for x, y in LOOP:
    loss = (net(x) - y.to("cuda")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FORMS = {
    "tqdm": ("from tqdm import tqdm", "tqdm(loader)"),
    "rich": ("from rich.progress import track", 'track(loader, description="training")'),
    "fastprogress": ("from fastprogress import progress_bar", "progress_bar(loader)"),
    "alive-progress": ("from alive_progress import alive_it", "alive_it(loader)"),
    "progressbar2": ("from progressbar import progressbar", "progressbar(loader)"),
    "labml": ("from labml import monit", 'monit.iterate("Train", loader)'),
}


@pytest.mark.parametrize("name", FORMS)
def test_batches_are_those_of_the_loader(name: str) -> None:
    line, loop = FORMS[name]
    text = rewritten.clean(SOURCE.replace("IMPORT", line).replace("LOOP", loop)).text
    assert f"for x, y in {loop}:\n    x, y = jnp.asarray(x), jnp.asarray(y)\n" in text

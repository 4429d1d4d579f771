"""Devices that are given to torch code which stays: it loads data, on the CPU."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Given(Dataset):
    def __init__(self, n, device):
        self.x = torch.linspace(0, 1, n * 4).reshape(n, 4)
        self.device = device

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i].to(self.device)
        return x, (x.sum() > 2).float()


class Global(Given):
    def __getitem__(self, i):
        x = self.x[i].to(device)
        return x, (x.sum() > 2).float()


def collate(batch, device):
    xs, ys = zip(*batch)
    return torch.stack(xs).to(device), torch.stack(ys).to(device)


loaders = [
    DataLoader(Given(8, device), batch_size=4),
    DataLoader(Global(8, device=device), batch_size=4, generator=torch.Generator(device=device)),
    DataLoader(Given(8, device), batch_size=4, collate_fn=lambda batch: collate(batch, device)),
]
model = nn.Linear(4, 1, bias=False).to(device)
nn.init.constant_(model.weight, 0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for loader in loaders:
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def test_data_sets_that_place_what_they_give() -> None:
    theirs, ours = rewritten.both(SCRIPT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, six steps


def test_a_device_that_both_sides_read() -> None:
    made = rewritten.clean(f"{SCRIPT}\nshown = device\nprint(device, device.type)\n")
    assert 'device = torch.device("cpu")' in made.text
    assert "print(jax.default_backend(), jax.default_backend())" in made.text


@pytest.mark.parametrize(
    ("call", "made"),
    [
        ("reader.Batches([1], device=device)", 'reader.Batches([1], device="cpu")'),
        ("Words([1], device=device)", 'Words([1], device="cpu")'),
        ("reader.tell(device)", "reader.tell(device)"),
    ],
)
def test_what_another_package_is_given(call: str, made: str) -> None:
    script = f"""import reader
import torch
from reader import Words

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 1).to(device)
y = model(torch.ones(1, 2, device=device))
given = {call}
"""
    output = rewritten.clean(script).text
    assert f"given = {made}" in output
    assert ("\ndevice = jax.default_backend()" in output) == ("device)" in made)

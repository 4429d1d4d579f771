"""Objects of a script's own that give batches, and functions that only move what they are given: both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, HEAD, trained

LOADED = """from torch.utils.data import DataLoader, TensorDataset

x = torch.linspace(-2, 3, 24, dtype=torch.float64).reshape(8, 3)
y = torch.sin(torch.linspace(0, 5, 16, dtype=torch.float64)).reshape(8, 2)
loader = DataLoader(TensorDataset(x, y), batch_size=4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
PLACING = """def to_device(data, device):
    \"\"\"Moves tensors, or lists of them, to a device.\"\"\"
    if isinstance(data, (list, tuple)):
        return [to_device(one, device) for one in data]
    elif isinstance(data, dict):
        return {key: to_device(one, device) for key, one in data.items()}
    return data.to(device, non_blocking=True)


"""
WRAPPER = """class DeviceLoader:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device

    def __iter__(self):
        for batch in self.loader:
            {body}

    def __len__(self):
        return len(self.loader)


"""
TURNS = """class Turns:
    def __init__(self, x, y, size):
        self.x = x
        self.y = y
        self.size = size

    def __iter__(self):
        self.start = 0
        return self

    def __next__(self):
        if self.start >= len(self.x):
            raise StopIteration
        batch = self.x[self.start:self.start + self.size], self.y[self.start:self.start + self.size]
        self.start += self.size
        return batch


"""
PREPARED = """def prepare(a, b):
    return a.view(-1, 3).to(device), b.to(device)


class Prepared:
    def __init__(self, loader, function):
        self.loader = loader
        self.function = function

    def __iter__(self):
        for batch in self.loader:
            yield self.function(*batch)


"""
TRAIN = """optimizer = optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for a, b in {loader}:
        optimizer.zero_grad()
        loss = criterion(model(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
WHOLE = TRAIN.replace("for a, b in", "for batch in").replace(
    "criterion(model(a), b)", "criterion(model(batch['a']), batch['b'])"
)

FORMS = {
    "batches that are moved": WRAPPER.format(body="yield to_device(batch, self.device)")
    + "loader = DeviceLoader(loader, device)\n"
    "model = to_device(model, device)\n" + TRAIN.format(loader="loader"),
    "tensors that are moved": WRAPPER.format(body="yield [one.to(self.device) for one in batch]")
    + TRAIN.format(loader="DeviceLoader(loader, device)"),
    "a dict of them": WRAPPER.format(body="yield {'a': batch[0].to(self.device), 'b': batch[1].to(self.device)}")
    + WHOLE.format(loader="DeviceLoader(loader, device)"),
    "numbered": WRAPPER.format(body="yield to_device(batch, self.device)")
    + TRAIN.format(loader="enumerate(DeviceLoader(loader, device))").replace("for a, b in", "for i, (a, b) in"),
    "an object that is its own iterator": TURNS + TRAIN.format(loader="Turns(x, y, 4)"),
    "a function that prepares": PREPARED + TRAIN.format(loader="Prepared(loader, prepare)"),
}


@pytest.mark.parametrize("name", FORMS)
def test_loads_alike(name: str, float64: None) -> None:
    theirs, ours = trained(HEAD + LOADED + PLACING + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert len(set(theirs["losses"])) > 8


def test_what_only_places_is_gone() -> None:
    text = convert(parse("train.py", HEAD + LOADED + PLACING + FORMS["batches that are moved"])).text
    assert "to_device" not in text
    assert "for batch in self.loader:\n            yield batch\n" in text


KEPT = {
    "another type": PLACING.replace("data.to(device, non_blocking=True)", "data.to(device, torch.float16)"),
    "more than a place": PLACING.replace("return data.to", "data = data * 2\n    return data.to"),
    "a device by another name": PLACING.replace("device)", "kind)").replace("(device, ", "(kind, "),
    "a part of what there is": PLACING.replace("for one in data]", "for one in data if one is not None]"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_does_more_stays(name: str) -> None:
    use = "print(to_device(x, torch.device('cpu')), to_device([x], torch.device('cpu')))\n"
    text = convert(parse("train.py", HEAD.replace("model = Net()\n", "") + KEPT[name] + use)).text
    assert "def to_device(" in text


AFTER_ANOTHER = """class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x):
        return self.lin(x)


head = Head()
optimizer = optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = criterion(head(model(x)), y)
    loss.backward()
    optimizer.step()
"""


def test_an_example_leaves_statistics_as_they_are() -> None:
    """The first input of a model behind another one is made without a step of the batch statistics."""
    text = convert(parse("train.py", HEAD.replace("nn.LayerNorm(5)", "nn.BatchNorm1d(5)") + AFTER_ANOTHER)).text
    before = text[: text.index("opt_state = ")]
    assert before.count("batch_stats = ") == 1
    assert "training=True" not in before[before.index("model = Net()") :]

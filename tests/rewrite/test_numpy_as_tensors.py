"""What `torch.LongTensor(x)` makes of numpy's arrays: data where it is known to be one, never a guess."""

from __future__ import annotations

import numpy as np

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.rewritten import executed

TEXT = """\
import numpy as np
import torch
import torch.nn as nn


def labels_of(rows):
    labels = np.array([number for _ in range(rows) for number in range(rows)])
    return torch.LongTensor(labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, tokens):
        return self.table(tokens)


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(2):
    tokens = torch.LongTensor(np.random.randint(0, 5, 8))
    loss = model(tokens).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GUESSED = """

def of_either(labels):
    if len(labels) > 3:
        labels = np.array([1])
    return torch.LongTensor(labels)
"""


def test_arrays_and_the_example_of_a_drawn_one() -> None:
    made = convert(parse("x.py", TEXT))
    assert made.report.exit_code == 0, made.report.as_text()
    assert "np.zeros(8, int)" in made.text  # an index must be whole
    names = executed(made.text)
    assert np.array_equal(names["labels_of"](2), [0, 1, 0, 1])


def test_what_may_be_a_size_is_told_by_its_value() -> None:
    made = convert(parse("x.py", TEXT + GUESSED))
    assert made.report.exit_code == 0, made.report.as_text()
    either = executed(made.text)["of_either"]
    assert np.array_equal(either([4, 5]), [4, 5])
    assert np.array_equal(either([1, 2, 3, 4]), [1])


SIZES = """import torch

x = torch.zeros(2, 3)
size = x.size()
made = [torch.FloatTensor(x.size()).zero_(), torch.FloatTensor(size).fill_(2), torch.FloatTensor(x.shape[1:]).zero_()]
data = torch.FloatTensor((2, 3))


def of(n):
    return torch.FloatTensor(n).zero_()


length = of(x.size(0) + 1)
"""


def test_sizes_of_tensors_are_sizes() -> None:
    made = convert(parse("x.py", SIZES))
    assert made.report.exit_code == 0, made.report.as_text()
    names = executed(made.text)
    assert [array.shape for array in names["made"]] == [(2, 3), (2, 3), (3,)]
    assert np.array_equal(names["made"][1], np.full((2, 3), 2.0))
    assert np.array_equal(names["data"], [2, 3])
    assert np.array_equal(names["length"], np.zeros(3))


SAMPLED = """import numpy as np
import torch
import torch.nn as nn


class Trainer:
    def __init__(self):
        self.net = nn.Conv1d(2, 4, 3)
        self.memory = np.random.rand(10, 2, 8)

    def outputs(self):
        rows = np.random.choice(10, 4)
        return self.net(torch.FloatTensor(self.memory[rows, :]))


np.random.seed(0)
trainer = Trainer()
shape = trainer.outputs().shape
following = np.random.rand()
"""


def test_an_example_waits_for_its_attributes_and_draws_nothing() -> None:
    theirs, made = executed(SAMPLED), convert(parse("x.py", SAMPLED))
    assert made.report.exit_code == 0, made.report.as_text()
    ours = executed(made.text)
    assert (ours["shape"], ours["following"]) == (tuple(theirs["shape"]), theirs["following"])


MADE_IN_PLACE = """\
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Square(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.fc = nn.Linear(k * k, k * k)

    def forward(self, x):
        eye = torch.from_numpy(np.eye(self.k).flatten().astype(np.float32)).view(1, self.k * self.k)
        return (self.fc(x) + eye.repeat(x.size(0), 1)).view(-1, self.k, self.k)


rows, labels = torch.arange(16.0).view(4, 4), torch.arange(8).view(4, 2)
loader = DataLoader(TensorDataset(rows, labels), batch_size=2)
model = Square(2)
number, data = next(enumerate(loader, 0))
x, label = data
label = label[:, 0]
x = x.cuda() if torch.cuda.is_available() else x
given = x.max(1)[0].sum()
left = (model(x).flatten(1) - model.fc(x)).sum(0)
"""


def test_methods_of_what_numpy_has_just_made_and_the_first_of_an_enumeration() -> None:
    """As in PointNet."""
    made = convert(parse("x.py", MADE_IN_PLACE))
    assert made.report.exit_code == 0, made.report.as_text()
    assert "np.eye(self.k).flatten().astype(np.float32)" in made.text
    before, after = executed(MADE_IN_PLACE), executed(made.text)
    for name in ("given", "label"):
        assert np.array_equal(np.asarray(after[name]), before[name].numpy())
    assert np.allclose(after["left"], before["left"].detach().numpy(), atol=1e-5)


def test_methods_of_what_numpy_may_not_have_made_are_reported() -> None:
    made = convert(parse("x.py", MADE_IN_PLACE.replace("np.eye(self.k)", "helper.eye(self.k)")))
    assert "MIG306" in {found.code for found in made.report.diagnostics}

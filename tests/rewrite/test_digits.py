"""What a script takes of data sets beside the batches: tensors of torch's, which meet arrays of JAX's."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn
import torchvision.datasets as dsets
from torchvision.datasets import FashionMNIST
from torchvision import transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
mnist_test = MADE(root="data", train=False, transform=transforms.ToTensor(), download=True)
model = nn.Linear(4, 3).to(device)
nn.init.constant_(model.weight, 0.5)
nn.init.constant_(model.bias, 0.5)
with torch.no_grad():
    x = mnist_test.test_data.view(len(mnist_test), 4).float().to(device)
    y = mnist_test.test_labels.to(device)
    prediction = model(x)
    right = (torch.argmax(prediction, 1) == y).float().mean().item()
    far = (prediction.sum(1) - mnist_test.targets).abs().sum().item()
"""


class Digits(list):
    """A stand-in of MNIST."""

    def __init__(self, **settings: object) -> None:
        super().__init__(range(5))
        self.test_data = self.data = torch.arange(20, dtype=torch.uint8).reshape(5, 2, 2)
        self.test_labels = self.targets = torch.tensor([0, 1, 0, 2, 0])


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in of the package."""
    names = ("torchvision", "torchvision.datasets", "torchvision.transforms")
    package, datasets, transforms = modules = [ModuleType(name) for name in names]
    package.datasets, package.transforms = datasets, transforms  # type: ignore[attr-defined]
    datasets.MNIST = datasets.FashionMNIST = datasets.Own = Digits  # type: ignore[attr-defined]
    transforms.ToTensor = object  # type: ignore[attr-defined]
    for name, module in zip(names, modules, strict=True):
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("made", ["dsets.MNIST", "FashionMNIST", "dsets.Own"])
@pytest.mark.usefixtures("torchvision")
def test_they_are_compared_and_reckoned_as_arrays(made: str) -> None:
    theirs, ours = rewritten.both(TEXT.replace("MADE", made))
    assert ours["right"] == theirs["right"] == pytest.approx(0.6)
    assert ours["far"] == pytest.approx(theirs["far"], rel=1e-6)
    assert ".to()" not in rewritten.clean(TEXT.replace("MADE", "dsets.MNIST")).text

"""Metrics of other packages measure torch's tensors: they stay, and are given copies of the arrays, outside of jit."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from migrate.files.source import parse
from migrate.pipeline import convert

TEXT = """import torch
import torch.nn as nn
import torchmetrics
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3).to(device)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,))), batch_size=8)


def train(model, loader, optimizer, measure):
    total = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        total += measure(out.argmax(dim=1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{total / len(loader):.3f}")


train(model, loader, optimizer, accuracy)
with torch.no_grad():
    for x, y in loader:
        accuracy.update(model(x.to(device)), y)
shown = accuracy.compute()
accuracy.reset()
"""


class Accuracy(torch.nn.Module):
    """torchmetrics' own, as far as the script asks it."""

    def __init__(self, task: str, num_classes: int) -> None:
        super().__init__()
        self.right: list[torch.Tensor] = []
        self.calls = 0

    def forward(self, predicted: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        assert isinstance(predicted, torch.Tensor) and isinstance(labels, torch.Tensor)
        self.calls += 1
        return (predicted == labels).float().mean()

    def update(self, scores: torch.Tensor, labels: torch.Tensor) -> None:
        self.right.append(self(scores.argmax(1), labels))

    def compute(self) -> torch.Tensor:
        return torch.stack(self.right).mean()

    def reset(self) -> None:
        self.right = []


def test_a_metric_is_given_tensors_after_the_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = ModuleType("torchmetrics")
    vars(package)["Accuracy"] = Accuracy
    monkeypatch.setitem(sys.modules, "torchmetrics", package)
    made = convert(parse("x.py", TEXT))
    assert not made.report.diagnostics
    bound: dict[str, object] = {}
    exec(compile(made.text, "x_jax.py", "exec"), bound)
    assert 0 <= float(capsys.readouterr().out) <= 1
    accuracy, shown = bound["accuracy"], bound["shown"]
    assert isinstance(accuracy, Accuracy) and accuracy.calls == 8  # 4 batches, trained on and looked at
    assert isinstance(shown, torch.Tensor) and 0 <= shown.item() <= 1


@pytest.mark.parametrize(
    "line",
    [
        "loss = loss + lpips.LPIPS(net='vgg')(model(x), x)",
        "loss = loss + similarity(model(x), x)",
        "similarity([model(x), x])",
    ],
)
def test_arrays_that_cannot_be_handed_over_are_refused(line: str) -> None:
    text = f"""import lpips
import torch
import torch.nn as nn
from pytorch_msssim import ssim as similarity

model = nn.Linear(3, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 3)
for step in range(3):
    loss = model(x).square().mean()
    {line}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    assert [found.code for found in convert(parse("x.py", text)).report.diagnostics] == ["MIG301"]

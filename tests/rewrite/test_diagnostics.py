"""Each code is raised by a small source that deserves it, at its line, and by none that does not."""

from __future__ import annotations

import ast

import pytest

from migrate.diagnostics import CODES, Fatal, Severity
from migrate.pipeline import convert
from migrate.source import load, parse

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


x = torch.ones(4, 3)
"""
LOOP = HEAD + """model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


def module(line: str, base: str = "nn.Module") -> str:
    """A module class with one line of its constructor."""
    return f"import torch\\nimport torch.nn as nn\\n\\n\\nclass M({base}):\\n    def __init__(self):\\n" + (
        f"        super().__init__()\\n        {line}\\n\\n    def forward(self, x):\\n        return x\\n"
    )


# code: the source, and the text of the line that it points to
SOURCES: dict[str, tuple[str, str]] = {
    "MIG001": ("def broken(:\\n    pass\\n", "def broken(:"),
    "MIG101": ("import math\\n\\nprint(math.pi)\\n", ""),
    "MIG201": (module("pass", "nn.LSTMCell"), "class M(nn.LSTMCell):"),
    "MIG202": (module("self.odd = nn.FractionalMaxPool2d(2, output_size=2)"), "self.odd = "),
    "MIG203": (module("self.pool = nn.MaxPool2d(2, ceil_mode=True)"), "self.pool = "),
    "MIG204": (LOOP.replace("for step", "model.fc.weight.data *= 2\\nfor step"), "model.fc.weight.data *= 2"),
    "MIG301": (LOOP.replace("model(x).sum()", "torch.special.bessel_j0(model(x)).sum()"), "loss = "),
    "MIG302": (HEAD + "print(F.softmax(x))\\n", "print(F.softmax(x))"),
    "MIG303": (HEAD + "y = x\\nx[0] += 1\\nprint(y)\\n", "x[0] += 1"),
    "MIG304": (HEAD + "activation = torch.relu\\n", "activation = torch.relu"),
    "MIG401": (LOOP.replace("optimizer.step()", "optimizer.step(lambda: loss)"), "optimizer.zero_grad()"),
    "MIG402": (HEAD + "model = Net()\\nprint(model)\\n", "model = Net()"),
}

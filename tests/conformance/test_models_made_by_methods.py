"""Models that a trainer's method makes and returns, which a subclass may define: `self.model = self._build_model()`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin = nn.Linear(inputs, outputs)
        nn.init.constant_(self.lin.weight, 0.2)
        nn.init.constant_(self.lin.bias, 0.05)
    def forward(self, x):
        return self.lin(x)

losses = []

class Basic:
    def __init__(self, parallel):
        self.parallel, self.device = parallel, torch.device("cpu")
        self.model = self._build_model().to(self.device)
    def _build_model(self):
        raise NotImplementedError
    def train(self):
        pass

class Exp(Basic):
    def _build_model(self):
"""
TRAIN = """
    def train(self):
        x, y = torch.arange(12.0).reshape(4, 3) / 10, torch.ones(4, 2)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return self.model

Chosen = Exp
for _ in range(2):
    exp = Chosen(False)
    exp.train()
"""
BUILDERS = {
    "alone": ["return Net(3, 2)"],
    "by a name": ["model = Net(3, 2).float()", "return model"],
    "for several devices": [
        "model = Net(3, 2).float()",
        "if self.parallel:",
        "    model = nn.DataParallel(model)",
        "return model",
    ],
}


@pytest.mark.parametrize("name", BUILDERS)
def test_losses_are_torchs(name: str) -> None:
    body = "\n".join(f"        {line}" for line in BUILDERS[name])
    theirs, ours = rewritten.both(HEAD + body + TRAIN)
    assert len(theirs["losses"]) == 6  # a method that gives the model back is called for what it does
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def test_a_part_that_holds_what_was_there_is_a_finding() -> None:
    made = rewritten.conversion("""import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.fc = nn.Linear(4, outputs)
    def forward(self, x):
        return self.fc(x)

class Siamese(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.encoder = base(8)
        self.encoder.fc = nn.Sequential(nn.ReLU(), self.encoder.fc)
    def forward(self, x):
        return self.encoder(x)

model = Siamese(Encoder)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).mean()
    loss.backward()
    optimizer.step()
""")
    assert [(one.code, one.line) for one in made.report.diagnostics] == [("MIG204", 15)]

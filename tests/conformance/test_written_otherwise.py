"""The same modules in other words: several statements on a line, a base by its name."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = "import torch\nimport torch.nn as nn\n\n\n"
TAIL = "y = Net()(torch.linspace(1, 2, 6).reshape(3, 2)).tolist()\n"
CLASSES = {
    "initial values in a loop": """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        for layer in (self.a, self.b):
            nn.init.constant_(layer.weight, 0.5); nn.init.constant_(layer.bias, 0.1)
    def forward(self, x):
        return self.b(self.a(x))
""",
    "weights that are filled in a loop": """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        for layer in (self.a, self.b):
            layer.weight.data.fill_(0.5); k = 0.2
            layer.bias.data.fill_(0.1); layer.weight.data.mul_(2)
    def forward(self, x):
        x = self.a(x); return self.b(x)
""",
    "attributes": """class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.k = 3; self.fc = nn.Linear(2, 1)
        nn.init.ones_(self.fc.weight); nn.init.zeros_(self.fc.bias)
    def forward(self, x): x = self.fc(x); x = x * self.k; return x
""",
    "the base by its name": """class Base(nn.Module):
    def __init__(self, width, bias=True):
        nn.Module.__init__(self)
        self.fc = nn.Linear(2, width, bias=bias)
        nn.init.constant_(self.fc.weight, 0.5)


class Net(Base):
    def __init__(self):
        Base.__init__(self, 3, bias=False)
        self.k = 2

    def forward(self, x):
        return self.fc(x) * self.k
""",
    "the base by its name beside a class without a constructor": """class Twice:
    def twice(self, x):
        return 2 * x


class Net(Twice, nn.Module):
    def __init__(self):
        nn.Module.__init__(self)
        self.fc = nn.Linear(2, 1)
        nn.init.constant_(self.fc.weight, 0.5)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.twice(self.fc(x))
""",
}


@pytest.mark.parametrize("name", CLASSES)
def test_outputs_are_torchs(name: str) -> None:
    theirs, ours = rewritten.both(HEAD + CLASSES[name] + TAIL)
    np.testing.assert_allclose(ours["y"], theirs["y"], rtol=1e-6)

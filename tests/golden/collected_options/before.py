"""What libraries of layers write: device and type collected once, layers that may be None, weights filled as matrices,
rates read out of a tensor."""

from functools import partial

import torch
import torch.nn as nn
from timm.layers import trunc_normal_

try:
    from torch import _assert
except ImportError:

    def _assert(condition, message):
        assert condition, message


def table(width, count):
    return torch.arange(width * count, dtype=torch.float32).reshape(count, width) / 10


class Patches(nn.Module):
    def __init__(self, patch, channels, width, device=None, dtype=None):
        dd = {"device": device, "dtype": dtype}
        super().__init__()
        self.patch = patch
        self.count = 16 // patch**2
        self.proj = nn.Conv2d(channels, width, kernel_size=patch, stride=patch, **dd)

    def forward(self, x):
        _assert(x.shape[2] == 4, "four rows are expected")
        return self.proj(x).flatten(2).transpose(1, 2)


class Mixer(nn.Module):
    def __init__(self, width, gated=False, wide=False, norm_layer=None, drop=0.0, device=None, dtype=None):
        """Makes the layers of a block."""
        super().__init__()
        dd = {"device": device, "dtype": dtype}
        hidden = width * 2
        width = width or 1
        made = partial(nn.Conv2d, kernel_size=1) if wide else nn.Linear
        self.fc1 = made(width, hidden, **dd)
        self.norm = norm_layer(hidden, **dd) if norm_layer is not None else nn.Identity()
        self.gate = nn.Linear(hidden, hidden, bias=False, **dd) if gated else None
        self.fc2 = nn.Linear(hidden, width, **dd)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        x = self.norm(torch.relu(self.fc1(x)))
        if self.gate is not None:
            x = x * self.gate(x).sigmoid()
        x = self.fc2(x)
        return x if self.drop.p == 0.0 else self.drop(x)


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.patches = Patches(2, 3, width)
        self.places = nn.Parameter(torch.zeros(1, self.patches.count, width), requires_grad=False)
        spread = torch.linspace(0, 0.2, 2)
        rates = [rate.item() for rate in spread]
        self.mixer = Mixer(width, drop=rates[0])
        self.head = nn.Linear(width, 2)
        self.initialize()

    def initialize(self):
        places = table(self.places.shape[-1], self.patches.count)
        self.places.data.copy_(places.unsqueeze(0))
        w = self.patches.proj.weight.data
        nn.init.xavier_uniform_(w.view([w.shape[0], -1]))
        nn.init.zeros_(self.patches.proj.bias)
        trunc_normal_(self.head.weight, std=0.02)

    def forward(self, x):
        x = self.patches(x) + self.places
        return self.head(self.mixer(x).mean(1))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.rand(4, 3, 4, 4), torch.tensor([0, 1, 0, 1])
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()

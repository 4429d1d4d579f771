"""Weights that an initialising loop finds by the class that holds them, and only where an argument says so."""

import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.last = norm(width)

    def forward(self, x):
        return x + self.last(self.conv(x))


class Narrow(nn.Module):
    def __init__(self, width, norm):
        super().__init__()
        self.down = nn.Conv2d(width, width // 2, 1)
        self.between = norm(width // 2)
        self.up = nn.Conv2d(width // 2, width, 1)
        self.last = norm(width)

    def forward(self, x):
        return x + self.last(self.up(self.between(self.down(x))))


class Stage(nn.Module):
    def __init__(self, block, width, depth, norm):
        super().__init__()
        self.blocks = nn.Sequential(*[block(width, norm) for _ in range(depth)])

    def forward(self, x):
        return self.blocks(x)


class Net(nn.Module):
    def __init__(self, block, width=8, depth=2, norm=None, start_as_identity=False):
        super().__init__()
        if norm is None:
            norm = nn.BatchNorm2d
        self.stage = Stage(block, width, depth, norm)

        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.normal_(m.weight, 1.0, 0.02)
                nn.init.constant_(m.bias, 0)

        if start_as_identity:
            for m in self.modules():
                if isinstance(m, Plain) and m.last.weight is not None:
                    nn.init.constant_(m.last.weight, 0)
                elif isinstance(m, Narrow):
                    nn.init.zeros_(m.last.weight)
                    nn.init.zeros_(m.up.weight)

    def forward(self, x):
        return self.stage(x)


def plain_net():
    return Net(Plain, start_as_identity=True)


def narrow_net():
    return Net(Narrow)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.scale = nn.Parameter(torch.ones(4))
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.norm(x) * self.scale)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = Head()
        self.apply(self._start)

    def _start(self, module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)
        elif isinstance(module, Head):
            module.out.weight.data.zero_()
            nn.init.constant_(module.scale, 0.1)

    def forward(self, x):
        return self.head(self.body(x))

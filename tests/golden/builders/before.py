"""Functions that build modules, called by constructors: they are told the mode. A layer that an argument chooses."""
from torch import nn


def conv_bn(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


def feed_forward(dim, mult=4, dropout=0.0):
    hidden = dim * mult
    layers = [nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout)]
    layers.append(nn.Linear(hidden, dim))
    return nn.Sequential(*layers)


def make_stage(inputs, outputs, blocks):
    stage = nn.Sequential(conv_bn(inputs, outputs, 2), *[conv_bn(outputs, outputs) for _ in range(blocks - 1)])
    return stage


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.feed = feed_forward(dim, 2, dropout=0.1)

    def forward(self, x):
        return x + self.feed(self.norm(x))


def make_block(dim):
    return Block(dim)


class Up(nn.Module):
    def __init__(self, width, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        else:
            self.up = nn.ConvTranspose2d(width, width, 2, stride=2)

    def forward(self, x):
        return self.up(x)


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = conv_bn(3, width)
        self.stage = make_stage(width, 2 * width, 2)
        self.up = Up(2 * width)
        self.blocks = nn.ModuleList([make_block(2 * width) for _ in range(2)])
        self.apply(self.initialize)

    def initialize(self, m):
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out")

    def forward(self, x):
        x = self.up(self.stage(self.stem(x))).mean((2, 3))
        for block in self.blocks:
            x = block(x)
        return x

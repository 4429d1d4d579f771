"""Classes and modules that constructors are given, and functions that fill the weights of whatever they are given."""
import torch
import torch.nn as nn
import torch.nn.init as init


def init_params(net):
    """Called below: the layers take what it gives them."""
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            init.kaiming_normal_(m.weight, mode="fan_out")
            if m.bias is not None:
                init.zeros_(m.bias)
        elif isinstance(m, nn.BatchNorm2d):
            init.ones_(m.weight)


def never_called(net):
    for m in net.modules():
        if isinstance(m, nn.Linear):
            init.normal_(m.weight, std=1e-3)


class Block(nn.Module):
    def __init__(self, before, after, shortcut=None):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, padding=1)
        self.norm = nn.BatchNorm2d(after)
        self.shortcut = shortcut

    def forward(self, x):
        out = self.norm(self.conv(x))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return torch.relu(out + x)


class Tree(nn.Module):
    """Holds itself, down to a level."""

    def __init__(self, block, before, after, level=1):
        super().__init__()
        if level == 1:
            shortcut = None
            if before != after:
                shortcut = nn.Conv2d(before, after, 1)
            self.left = block(before, after, shortcut)
            self.right = block(after, after)
        else:
            self.left = Tree(block, before, after, level=level - 1)
            self.right = Tree(block, after, after, level=level - 1)

    def forward(self, x):
        return self.right(self.left(x))


class Head(nn.Module):
    """Hands on what nobody gives it."""

    def __init__(self, width, **more):
        super().__init__()
        self.linear = nn.Linear(width, width, **more)

        def zeros(module):
            if isinstance(module, nn.Linear):
                init.zeros_(module.weight)

        self.apply(zeros)

    def forward(self, x):
        return self.linear(x)


class Net(nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.small = Tree(block, 3, 8)
        self.large = Tree(block, 8, 8, level=2)
        self.head = Head(8)

    def forward(self, x):
        return self.head(self.large(self.small(x)).mean((2, 3)))


net = Net()
init_params(net)
print(net(torch.ones(2, 3, 8, 8)))

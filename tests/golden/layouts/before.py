"""Channels move once in and once out, however the layers are written."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, padding=1, bias=False)
        self.pool = nn.AvgPool2d(2)
        self.fc = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.max_pool2d(F.leaky_relu(self.conv2(x), 0.1), 2)
        x = x.view(x.size(0), -1)
        return self.fc(x)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(inplace=True))
        self.skip = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        out = self.body(x)
        out = out + self.skip(x)
        return torch.relu(out)


class Seen(nn.Module):
    """What the user's own code sees has torch's order."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 1)
        self.norm = nn.LayerNorm([4, 4])

    def forward(self, x, twice=False):
        x = self.conv(x)
        b, c, h, w = x.shape
        if twice:
            x = self.conv(x[:, :3])
        mean = x.mean(dim=(2, 3))
        return self.norm(x), mean


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))

    def forward(self, x):
        return self.net(x)

"""Modules that are made outside of the class that holds them: by a builder, by a call in place, under a name."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_layers(widths, batch_norm=False):
    layers = []
    channels = 3
    for width in widths:
        if width == "M":
            layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
            continue
        layers += [nn.Conv2d(channels, width, kernel_size=3, padding=1)]
        if batch_norm:
            layers += [nn.BatchNorm2d(width)]
        layers += [nn.ReLU(inplace=True)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten())


class FeedForward(nn.Module):
    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.down(self.dropout(torch.relu(self.up(x))))


class Block(nn.Module):
    def __init__(self, width, feed_forward):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.feed_forward = feed_forward

    def forward(self, x):
        return x + self.feed_forward(self.norm(x))


class Net(nn.Module):
    def __init__(self, features, block, head, depth):
        super().__init__()
        self.features = features
        self.blocks = nn.ModuleList([copy.deepcopy(block) for _ in range(depth)])
        self.head = head

    def forward(self, x):
        x = self.features(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_model(width=16, classes=4):
    c = copy.deepcopy
    feed_forward = FeedForward(width)
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(width, classes))
    return Net(make_layers([8, "M", 4, "M"], batch_norm=True), Block(width, c(feed_forward)), head, depth=2)


def main():
    torch.manual_seed(0)
    x = torch.randn(32, 3, 8, 8)
    y = torch.randint(0, 4, (32,))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        model.train()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            print(loss.item(), F.cross_entropy(model(x), y).item())


main()

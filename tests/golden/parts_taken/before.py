import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.features = nn.Sequential(nn.Conv2d(width, width, 3), nn.ReLU(), nn.Dropout(0.1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = self.features(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.pool(x), 1))


def small_net(weights=None):
    net = Net(8)
    if weights is not None:
        net.load_state_dict(torch.load(weights))
    return net


def last_layer(size):
    net = Net(8, classes=size)
    return net.fc


class Encoder(nn.Module):
    """All of a network but its last layer."""

    def __init__(self, size):
        super().__init__()
        net = small_net()
        net.relu = nn.LeakyReLU(0.1)
        modules = list(net.children())[:-1]  # without the last layer
        self.body = nn.Sequential(*modules)
        self.linear = nn.Linear(net.fc.in_features, size)

    def forward(self, x):
        x = self.body(x)
        return self.linear(x.reshape(x.size(0), -1))


class Stem(nn.Module):
    """Parts under names, of which some do not learn."""

    def __init__(self, size):
        super().__init__()
        net = Net(size)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu)
        self.features, self.pool = net.features, net.pool
        for p in self.stem.parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.pool(self.features(self.stem(x))).flatten(1)


class Cut(nn.Module):
    """Parts of parts."""

    def __init__(self, size):
        super().__init__()
        self.first = Net(size)
        self.first = nn.Sequential(*list(self.first.children())[:2])
        self.conv = Net(size).features[0]
        frozen = small_net(weights=None)
        for p in frozen.parameters():
            p.requires_grad = False
        self.rest = nn.Sequential(frozen.features, frozen.pool)
        self.widen = nn.Conv2d(size, 8, 1)
        self.out = last_layer(size)

    def forward(self, x):
        x = self.conv(F.relu(self.first(x)))
        return self.out(self.rest(self.widen(x)).flatten(1))


torch.manual_seed(0)
encoder, stem, cut = Encoder(6), Stem(6), Cut(6)
params = list(encoder.parameters()) + list(stem.parameters()) + list(cut.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)
for step in range(6):
    x = torch.randn(4, 3, 8, 8)
    loss = (encoder(x) - stem(x) * cut(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())

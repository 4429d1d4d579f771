import torch
import torch.nn as nn


class Fire(nn.Module):
    def __init__(self, inputs, squeezed, outputs):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, outputs, 1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([x, torch.relu(self.expand(x))], 1)


class Net(nn.Module):
    def __init__(self, version="1_0"):
        super().__init__()
        if version == "1_0":
            self.features = nn.Sequential(
                nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), Fire(8, 4, 8), nn.MaxPool2d(2), Fire(12, 4, 8)
            )
        else:
            self.features = nn.Sequential(
                nn.Conv2d(3, 8, 3), nn.ReLU(), Fire(8, 4, 8), nn.MaxPool2d(2), nn.Dropout(0.1), Fire(12, 4, 8)
            )
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def net(version, weights=None):
    model = Net(version)
    if weights is not None:
        model.load_state_dict(torch.load(weights))
    return model

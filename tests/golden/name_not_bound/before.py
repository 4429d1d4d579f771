"""A file of helpers that forgot `import torch`: what needs it raises, in torch as well."""

import torch.nn as nn


def mean_of(loader):
    """Never ran."""
    total = torch.zeros(3)
    for images in loader:
        total += images.mean((0, 2, 3))
    total.div_(len(loader))
    return total


def centred(x, mean):
    shifted = x - mean
    if torch.is_tensor(mean):
        return shifted
    return x


def noisy(x, noise=None):
    """Only without noise does it fail."""
    import torch

    return x if noise is None else x + torch.zeros_like(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)

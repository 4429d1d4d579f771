import torch.nn as nn

from library import encoder

HIDDEN = 5


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(HIDDEN, width)

    def forward(self, x):
        return self.layer(x)


def both(width):
    return encoder.Net(width), Net(width)

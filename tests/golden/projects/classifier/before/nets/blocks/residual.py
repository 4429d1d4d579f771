from torch import nn


class Block(nn.Module):
    def __init__(self, width, rate=0.1):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)
        self.drop = nn.Dropout(rate)

    def forward(self, x):
        return x + self.drop(self.linear(self.norm(x)).relu())

import torch.nn as nn
import torch.nn.functional as F

import config
from nets.blocks.residual import Block


class Classifier(nn.Module):
    def __init__(self, classes, hidden=config.HIDDEN):
        super().__init__()
        self.stem = nn.Linear(4, hidden)
        self.block = Block(hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        return self.head(self.block(x))

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.attention(x, x, x)[0])


class Stack(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.width = width
        self.depth = depth
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Model(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.left = Stack(width, depth)
        self.right = Stack(width, depth)
        self.start()

    def start(self):
        deviation = self.right.width**-0.5
        for block in self.right.blocks:
            nn.init.normal_(block.attention.in_proj_weight, std=deviation)
            nn.init.normal_(block.attention.out_proj.weight, std=deviation * (2 * self.right.depth) ** -0.5)
            nn.init.zeros_(block.mlp[2].weight)

    def forward(self, x):
        return self.left(x) + self.right(x)

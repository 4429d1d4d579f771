"""Layers of a list that a constructor gives initial weights by their index."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.gates = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        for i in range(depth):
            nn.init.xavier_normal_(self.layers[i].weight.data, gain=1.0)
            nn.init.zeros_(self.layers[i].bias.data)
        for i in range(len(self.gates)):
            nn.init.normal_(self.gates[i].weight, std=0.02)

    def forward(self, x):
        for layer, gate in zip(self.layers, self.gates):
            x = torch.tanh(layer(x)) * torch.sigmoid(gate(x))
        return x

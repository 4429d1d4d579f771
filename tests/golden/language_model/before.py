"""A language model in a ModuleDict with a tied table, norms of its own with or without a bias, several sizes of parts."""
import torch
import torch.nn as nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.width = config.width
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.bias)
        self.fused = hasattr(torch.nn.functional, "scaled_dot_product_attention")
        if not self.fused:
            self.register_buffer("mask", torch.tril(torch.ones(16, 16)))

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.width, dim=2)
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) * self.width**-0.5
        scores = scores.masked_fill(self.mask[: x.size(1), : x.size(1)] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ v


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.parts = nn.ModuleDict(
            dict(
                table=nn.Embedding(config.vocabulary, config.width),
                blocks=nn.ModuleList([Attention(config) for _ in range(config.layers)]),
                norm=Norm(config.width, bias=config.bias),
            )
        )
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.parts.table.weight = self.head.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, tokens):
        x = self.parts.table(tokens)
        for block in self.parts.blocks:
            x = x + block(x)
        return self.head(self.parts.norm(x))

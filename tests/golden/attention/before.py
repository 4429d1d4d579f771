"""Buffers, tied weights, initialisation by apply, a module list, random draws in a method."""
import math

import torch
import torch.nn as nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, context: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(context, context)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = [y.view(B, T, self.heads, C // self.heads).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1)]
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.mask[:T, :T] == 0, -1e9)
        return (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C)


class Model(nn.Module):
    def __init__(self, vocabulary, width=32, layers=2, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.zeros(1, 16, width))
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(Attention(width, 4, 16))
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=0.02)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position[:, : tokens.size(1)]
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.dropout(x))

    @torch.no_grad()
    def sample(self, tokens, temperature=1.0):
        logits = self(tokens)[:, -1] / temperature
        return torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)

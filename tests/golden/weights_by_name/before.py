"""Weights by torch's names: a model that takes them from a checkpoint of another library, key by key; a dict of them
that a script looks into and puts back; a table and a mask that are cut to a shorter length."""
import torch
import torch.nn as nn
from dataclasses import dataclass

from checkpoints_of_others import TinyModel


@dataclass
class Config:
    length: int = 16
    vocabulary: int = 32
    width: int = 8
    layers: int = 2


class Mixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.linear = nn.Linear(config.width, config.width, bias=False)
        self.fused = True
        if not self.fused:
            self.register_buffer("mask", torch.tril(torch.ones(config.length, config.length)).view(1, config.length, config.length))

    def forward(self, x):
        return x + torch.cumsum(self.linear(self.norm(x)), dim=1)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.length > 0
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList([Mixer(config) for _ in range(config.layers)])
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.positions(torch.arange(length))
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def shorten(self, length):
        assert length <= self.config.length
        self.config.length = length
        self.positions.weight = nn.Parameter(self.positions.weight[:length])
        for block in self.blocks:
            if hasattr(block, "mask"):
                block.mask = block.mask[:, :length, :length]

    @classmethod
    def from_other(cls, size):
        model = cls(Config(width=size))
        own = model.state_dict()
        theirs = TinyModel.from_pretrained(size).state_dict()
        names = [name for name in theirs.keys() if not name.endswith(".counter")]
        assert len(names) == len(own), f"{len(names)} names, {len(own)} weights"
        for name in names:
            with torch.no_grad():
                if name.endswith("linear.weight"):
                    assert theirs[name].shape[::-1] == own[name].shape
                    own[name].copy_(theirs[name].t())
                else:
                    own[name].copy_(theirs[name])
        return model


model = Model.from_other(8)
model.shorten(6)
weights = model.state_dict()
for name, value in weights.items():
    print(name, tuple(value.shape))
weights["tokens.weight"] = weights["head.weight"] = 0.5 * weights["tokens.weight"]
model.load_state_dict(weights)
print(model(torch.arange(12).view(2, 6)).sum())

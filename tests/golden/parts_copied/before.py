"""Parts that a helper copies, which callers give modules of several classes: it is one function in the output. A row of layers
among the arguments of a constructor has copies, too."""

import copy

import torch
from torch import nn


def clones(module, count):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(count)])


class Attention(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.linears = clones(nn.Linear(width, width), 4)

    def forward(self, query, key, value):
        query, key, value = [
            lin(x).view(x.size(0), -1, self.heads, x.size(-1) // self.heads).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        weights = (query @ key.transpose(-2, -1)).softmax(dim=-1)
        x = (weights @ value).transpose(1, 2).contiguous()
        return self.linears[-1](x.view(x.size(0), -1, x.size(-1) * self.heads))


class Sublayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))


class Layer(nn.Module):
    def __init__(self, width, attention, feed):
        super().__init__()
        self.attention = attention
        self.feed = feed
        self.sublayer = clones(Sublayer(width), 2)
        self.width = width

    def forward(self, x):
        x = self.sublayer[0](x, lambda x: self.attention(x, x, x))
        return self.sublayer[1](x, self.feed)


class Encoder(nn.Module):
    def __init__(self, layer, count):
        super().__init__()
        self.layers = clones(layer, count)
        self.norm = nn.LayerNorm(layer.width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Positions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("table", torch.arange(16).float().unsqueeze(1) / width)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class Model(nn.Module):
    def __init__(self, encoder, embed, head):
        super().__init__()
        self.encoder = encoder
        self.embed = embed
        self.head = head

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)))


def make_model(width=8, count=2):
    c = copy.deepcopy
    attention = Attention(2, width)
    feed = nn.Linear(width, width)
    position = Positions(width)
    model = Model(
        Encoder(Layer(width, c(attention), c(feed)), count),
        nn.Sequential(nn.Embedding(10, width), c(position)),
        nn.Linear(width, 10),
    )
    return model


model = make_model()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 10, (4, 6))
    loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())

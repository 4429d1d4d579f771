"""Methods of a module that work on its weights, initial weights by name through several classes, what a constructor
tells of its weights; a model that another branch makes of a file, and methods that are refused whole."""
import math

import torch
import torch.nn as nn


class Feedforward(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.up = nn.Linear(settings.width, 4 * settings.width)
        self.down = nn.Linear(4 * settings.width, settings.width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Block(nn.Module):
    def __init__(self, options, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(options.width)
        self.feedforward = Feedforward(options)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.feedforward(self.norm(x)))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList([Block(config, config.dropout) for _ in range(config.layers)])
        self.head = nn.Linear(config.width, config.vocabulary)
        # the projections into the residual stream start smaller
        for name, p in self.named_parameters():
            if name.endswith("down.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.layers))

        # how large it is
        count = sum(p.numel() for p in self.blocks.parameters())
        print(f"{self.size():,} weights, {count:,} of them in {config.layers} blocks")

    def size(self, with_table=True):
        total = sum(p.numel() for p in self.parameters())
        if not with_table:
            total -= self.table.weight.numel()
        return total

    def optimizer(self, rate, decay):
        # matrices and tables decay, biases and norms do not
        named = {name: p for name, p in self.named_parameters()}
        decayed = [p for name, p in named.items() if p.dim() >= 2]
        others = [p for name, p in named.items() if p.dim() < 2]
        print(f"{len(decayed)} decayed, {sum(p.numel() for p in others)} others")
        groups = [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=rate)
        return optimizer

    def shortened(self, length):
        self.table.weight = nn.Parameter(self.table.weight[:length])

    @classmethod
    def of_another(cls, config, weights):
        model = cls(config)
        for name, value in model.state_dict().items():
            value.copy_(weights[name].t())
        return model

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch():
    tokens = torch.randint(16, (4, 9))
    return tokens[:, :-1], tokens[:, 1:]


def train(config, weights=None):
    if weights is not None:
        model = Model.of_another(config, weights)
    else:
        model = Model(config)
    optimizer = model.optimizer(1e-3, 0.1)
    tokens, targets = batch()
    for step in range(10):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 / (step + 1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        tokens, targets = batch()  # the next one while this one is worked on
        loss.backward()
        optimizer.step()
        print(step, loss.item(), model.size(with_table=False))

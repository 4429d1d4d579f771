import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 2 * dim))

    def forward(self, x):
        return self.fc(x) + self.ada(x)[..., ::2]


class Net(nn.Module):
    def __init__(self, dim, depth=2):
        super().__init__()
        self.pos = nn.Parameter(torch.zeros(1, 4, dim))
        self.emb = nn.Embedding(10, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 3)
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        nn.init.trunc_normal_(self.pos, std=0.02)
        nn.init.xavier_uniform_(self.emb.weight)
        nn.init.normal_(self.mix[0].weight, std=0.1)
        if self.mix[2].bias is not None:
            nn.init.zeros_(self.mix[-1].bias)
        self.head.weight.data.uniform_(-0.1, 0.1)
        self.head.bias.data.zero_()
        for block in self.blocks:
            nn.init.constant_(block.ada[-1].weight, 0)
            nn.init.constant_(block.ada[-1].bias, 0)

    def forward(self, ids):
        x = self.emb(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.mix(x))


class Other(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.conv = nn.Conv1d(3, dim, 3)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv1d)):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        if dim > 3:
            nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(self.conv(x).mean(-1))

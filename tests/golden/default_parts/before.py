"""Modules that constructors are given, or else make, whose weights have the names of the attributes all the same; and a
head that is put on a model which has its weights by then."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Branches(nn.Module):
    def __init__(self, width=8, first=None, second=None, third=None, last=None):
        super().__init__()
        self.first = nn.Linear(width, width) if first is None else first
        if second is None:
            second = nn.Linear(width, width)
        self.second = second
        self.row = nn.Sequential(nn.Linear(width, width), nn.ReLU(), third or nn.Linear(width, width))
        if last is None:
            self.head = nn.Linear(width, 2)
        else:
            self.head = last

    def forward(self, x):
        return self.head(self.row(self.second(self.first(x))))


torch.manual_seed(0)
x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))

usual = Branches()
own = Branches(
    first=nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2)),
    second=nn.Linear(8, 8, bias=False),
    third=nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
    last=nn.Linear(8, 3),
)
print(sum(p.numel() for p in usual.parameters()))
usual.head = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 3))
print(usual.second.out_features)
usual.second = nn.Identity()
for model in (usual, own):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())

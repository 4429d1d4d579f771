import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 8)
        self.two = nn.Linear(8, 3)

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


def collate(rows):
    xs, ys = zip(*rows)
    return torch.stack(xs), torch.stack(ys)


def endless(loader):
    while True:
        for batch in loader:
            yield batch


torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 4), torch.randint(0, 3, (24,)))
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
best, best_loss = None, float("inf")

# a stream of batches
batches = endless(loader)
for step in range(2):
    x, y = next(batches)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best_loss:
        best, best_loss = copy.deepcopy(model), loss.item()

# an iterator that starts again
iterator = iter(loader)
for step in range(4):
    try:
        x, y = next(iterator)
    except StopIteration:
        iterator = iter(loader)
        x, y = next(iterator)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.no_grad():
    print(best_loss, best(torch.ones(1, 4)).sum().item())

"""Lambdas that have names, functions inside methods, and functions of a class without an object."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


flat = lambda x, *args, **kwargs: x.reshape(*args, **kwargs)
size = lambda x, *args, **kwargs: x.numel(*args, **kwargs)
as_type = lambda x, *args: x.type(*args)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        scale = lambda t: t / (1 + t.std(dim=1, keepdim=True))
        return self.out(scale(self.hidden(x)))


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.seen = 0

    def step(self, x, y):
        weigh = lambda t, s: t / s.std()

        def loss_of(x):
            return weigh((self.model(x) - flat(y, (-1, 3))).pow(2).sum() / size(y), y) + self.spread(x)

        def count(n):
            self.seen += n

        self.optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        self.optimizer.step()
        count(x.size(0))
        return loss.item()

    @staticmethod
    def spread(t):
        return t.var()

    def noisy(self, x):
        noise = lambda n, size=0.1: size * torch.randn(n, 4)
        return self.model(x + noise(x.size(0)))


torch.manual_seed(0)
collate = lambda rows: (torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows]))
data = TensorDataset(torch.randn(40, 4), torch.randn(40, 3))
loader = DataLoader(data, batch_size=8, collate_fn=collate)
model = Scaled()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# warms up
warm = lambda epoch: min(1.0, (epoch + 1) / 3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm)
net = lambda t: model(t)
largest = lambda t: t.max(dim=1)[0]
spreads = lambda a, b: (a.std(), b.numel())
trainer = Trainer(model, optimizer)
for epoch in range(2):
    for x, y in loader:
        loss = trainer.step(x, y)
        print(loss, trainer.seen, largest(net(x)).shape, spreads(x, y), Trainer.spread(y))
    schedule.step()
print(trainer.noisy(as_type(torch.ones(2, 4), torch.float32)).shape)

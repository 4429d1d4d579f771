"""Averages of all that a state dict has, weights and batch statistics, as people write them."""

import math
from copy import deepcopy

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.bn = nn.BatchNorm1d(16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, x):
        return self.fc2(torch.relu(self.bn(self.fc1(x))))


class RampedEMA:
    def __init__(self, model, decay=0.9999, tau=2000, updates=0):
        self.ema = deepcopy(model).eval()
        self.updates = updates
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))
        for p in self.ema.parameters():
            p.requires_grad_(False)

    def update(self, model):
        self.updates += 1
        d = self.decay(self.updates)
        msd = model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.is_floating_point:
                v *= d
                v += (1 - d) * msd[k].detach()


class ModelEma:
    def __init__(self, model, decay=0.9999, device=""):
        self.ema = deepcopy(model)
        self.ema.eval()
        self.decay = decay
        self.device = device
        if device:
            self.ema.to(device=device)
        self.ema_has_module = hasattr(self.ema, "module")

    def update(self, model):
        needs_module = hasattr(model, "module") and not self.ema_has_module
        with torch.no_grad():
            msd = model.state_dict()
            for k, ema_v in self.ema.state_dict().items():
                if needs_module:
                    k = "module." + k
                model_v = msd[k].detach()
                if self.device:
                    model_v = model_v.to(device=self.device)
                ema_v.copy_(ema_v * self.decay + (1.0 - self.decay) * model_v)


@torch.no_grad()
def update_average(average, model, decay):
    for a, m in zip(average.state_dict().values(), model.state_dict().values()):
        if a.is_floating_point():
            a.mul_(decay).add_(m, alpha=1 - decay)


torch.manual_seed(0)
model = Net()
ramped = RampedEMA(model, decay=0.9, tau=5)
ema = ModelEma(model, decay=0.8)
average = deepcopy(model)
average.eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
for step in range(10):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ramped.update(model)
    ema.update(model)
    update_average(average, model, 0.7)
    with torch.no_grad():
        errors = [((net(x) - y) ** 2).mean().item() for net in (ramped.ema, ema.ema, average)]
    print(step, loss.item(), errors[0], errors[1], errors[2])

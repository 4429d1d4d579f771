"""Weights that are kept beside a model: a class that averages them by name, copies that are compared with what they have
become, and the weights of the best epoch."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.hidden(x)))


class EMA:
    def __init__(self, model, decay):
        self.model = model
        self.decay = decay
        self.shadow = {}
        self.backup = {}
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = param.data.clone()

    def update(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                assert name in self.shadow
                new_average = (1.0 - self.decay) * param.data + self.decay * self.shadow[name]
                self.shadow[name] = new_average.clone()

    def apply_shadow(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.backup[name] = param.data
                param.data = self.shadow[name]

    def restore(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                param.data = self.backup[name]
        self.backup = {}


x, y = torch.randn(16, 3), torch.randint(0, 2, (16,))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ema = EMA(model, 0.9)
first = model.head.bias.detach().clone()
slow = {name: param.clone().detach() for name, param in model.named_parameters()}
best, best_weights = float("inf"), None
start = copy.deepcopy(model.state_dict())
for epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y) + 0.1 * (model.head.bias - first).square().sum()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.head.bias.clamp_(-0.3, 0.3)
        model.hidden.weight.mul_(0.99)
    ema.update()
    for name, param in model.named_parameters():
        slow[name].mul_(0.5).add_(param.data, alpha=0.5)
    if epoch == 2:
        best, best_weights = loss.item(), {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        ema.apply_shadow()
        print("averaged", F.cross_entropy(model(x), y).item())
        ema.restore()
        print("as it is", F.cross_entropy(model(x), y).item())
for name, param in model.named_parameters():
    param.data.copy_(slow[name])
with torch.no_grad():
    print("slow", F.cross_entropy(model(x), y).item())
model.load_state_dict(best_weights)
with torch.no_grad():
    print("best", best, F.cross_entropy(model(x), y).item())
model.load_state_dict(start)
with torch.no_grad():
    print("start", F.cross_entropy(model(x), y).item())
model.load_state_dict(best_weights)
weight, bias = model.head.parameters()
print("head", weight[0, 1].item(), bias[1].item(), "first", list(model.parameters())[0][2, 1].item())

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 2)), batch_size=8)


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(3, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        return self.out(torch.tanh(self.fc(x)))


def build(model):
    body = torch.optim.SGD(model.fc.parameters(), lr=0.1)
    head = torch.optim.Adam(model.out.parameters(), lr=0.01)
    return [body, head]


class Pair:
    def __init__(self):
        self.models = {"wide": Net(8), "slim": Net(2)}
        self.optimizers = {k: torch.optim.SGD(m.parameters(), lr=0.1) for k, m in self.models.items()}

    def step(self, x, y):
        losses = []
        for name, optimizer in self.optimizers.items():
            optimizer.zero_grad()
            loss = F.mse_loss(self.models[name](x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses


def main():
    model = Net()
    optimizers = build(model)
    schedulers = [torch.optim.lr_scheduler.StepLR(opt, 2) for opt in optimizers]
    pair = Pair()
    for x, y in loader:
        for opt in optimizers:
            opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        for opt, scheduler in zip(optimizers, schedulers):
            opt.step()
            scheduler.step()
        print(loss.item(), pair.step(x, y))


if __name__ == "__main__":
    main()

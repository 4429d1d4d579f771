"""Objects that have a model which others train: averages of its weights, evaluation, checkpoints."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.hidden(x))))


class EMA:
    def __init__(self, model, decay):
        self.model = model
        self.decay = decay
        self.shadow = {}
        self.backup = {}

    def register(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = param.data.clone()

    def update(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
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


class Evaluator:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            return sum(F.mse_loss(self.model(x), y).item() for x, y in self.loader)


class Keeper:
    def __init__(self, model, optimizer, path):
        self.model, self.path = model, path
        self.optimizer = optimizer
        self.best = float("inf")

    def keep(self, loss):
        if loss < self.best:
            self.best = loss
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, self.path)

    def load(self):
        kept = torch.load(self.path)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])


def train(model, optimizer, loader, ema=None):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if ema is not None:
            ema.update()


def main():
    loader = DataLoader(TensorDataset(torch.randn(32, 3), torch.randn(32, 1)), batch_size=8)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    ema = EMA(model, 0.9)
    ema.register()
    evaluator = Evaluator(model, loader)
    keeper = Keeper(model, optimizer, "best.pt")
    for epoch in range(3):
        train(model, optimizer, loader, ema if epoch else None)
        ema.apply_shadow()
        loss = evaluator.evaluate()
        ema.restore()
        keeper.keep(loss)
        print(epoch, loss)
    keeper.load()
    print(model(torch.ones(2, 3)).sum().item())


main()

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.one = nn.Linear(4, hidden)
        self.two = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def make_model(hidden):
    model = Net(hidden)
    return model


def build(hidden, lr):
    # what one experiment needs
    model = make_model(hidden)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return model, optimizer


def train(model, optimizer, loader):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randint(0, 3, (24,))), batch_size=8)
    model, optimizer = build(8, lr=0.1)
    for epoch in range(2):
        print(epoch, train(model, optimizer, loader))


main()

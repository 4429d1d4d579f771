"""The common shape: train() and test() called from main(), with a schedule and a device."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc1 = nn.Linear(4, hidden)
        self.dropout = nn.Dropout(0.1)
        self.fc2 = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.fc2(self.dropout(F.relu(self.fc1(x))))


def train(model, device, loader, optimizer, epoch, log_interval=10):
    model.train()
    total = 0.0
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        # forward
        output = model(data)
        loss = F.cross_entropy(output, target)
        # backward
        loss.backward()
        optimizer.step()
        total += loss.item()
        if batch % log_interval == 0:
            print(epoch, batch, loss.item(), output.argmax(1).float().mean().item())
    return total / len(loader)


def test(model, device, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            correct += model(data).argmax(dim=1).eq(target).sum().item()
    return correct


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = Net(8).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    for epoch in range(args.epochs):
        loss = train(model, device, loader, optimizer, epoch)
        scheduler.step()
        print(loss, test(model, device, loader), scheduler.get_last_lr())
    torch.save(model.state_dict(), "net.pt")


if __name__ == "__main__":
    main()

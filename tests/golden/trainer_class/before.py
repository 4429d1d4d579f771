"""A trainer keeps model, optimizer and schedule on itself: so it keeps their state."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.fc1 = nn.Linear(4, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.drop = nn.Dropout(0.1)
        self.fc2 = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.fc2(self.drop(torch.tanh(self.norm(self.fc1(x)))))


class Trainer:
    def __init__(self, model, lr, device="cpu"):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.5)
        self.history = []

    def compute_loss(self, x, y):
        return self.criterion(self.model(x), y)

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        self.optimizer.zero_grad()
        loss = self.compute_loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def train_epoch(self, loader):
        self.model.train()
        total = 0.0
        for x, y in loader:
            total += self.step(x, y)
        self.scheduler.step()
        self.history.append(total / len(loader))

    def evaluate(self, loader):
        self.model.eval()
        with torch.no_grad():
            return sum(self.criterion(self.model(x), y).item() for x, y in loader) / len(loader)

    def save(self, path):
        torch.save(self.model.state_dict(), path)


torch.manual_seed(0)
x = torch.randn(64, 4)
y = x.sum(dim=1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = Net()
trainer = Trainer(model, 1e-2)
for epoch in range(3):
    trainer.train_epoch(loader)
    print(epoch, trainer.history[-1], trainer.evaluate(loader))
trainer.save("net.pt")

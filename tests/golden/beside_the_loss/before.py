import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randn(40, 2)), batch_size=8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        return self.norm(self.fc(x))


model = Net()
twice = torch.tensor(2.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    # neither is part of the loss
    shifted = model(x + 1)
    error = (out - y).abs().sum()
    out = out * 2
    loss = F.mse_loss(out, y)
    total += loss.item()
    loss = loss / 4
    penalized = loss + 0.1 * model.fc.weight.pow(2).sum()
    penalized.backward(twice)
    optimizer.step()
    print(loss.item(), penalized.item(), total, error.item(), shifted.sum().item())
model.eval()
with torch.no_grad():
    print(model(torch.ones(1, 3)).sum().item())

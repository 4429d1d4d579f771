"""An MLP with dropout on a shuffled loader, at module level."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.fc1 = nn.Linear(8, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.25)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 3)

    def forward(self, x):
        x = self.drop(self.act(self.norm(self.fc1(x))))
        x = self.act(self.fc2(x))
        return self.fc3(x)


x = torch.randn(90, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=2)

model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
criterion = nn.CrossEntropyLoss()

for epoch in range(2):
    model.train()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")

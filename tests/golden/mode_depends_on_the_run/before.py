"""Nobody switches back to train mode after the first evaluation."""
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.fc(x))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(4, 2)
for epoch in range(3):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    print(model(x))

"""Models that are made of torch's layers alone, outside any class."""
import torch
import torch.nn as nn

model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(144, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
x = torch.randn(5, 1, 8, 8)
y = torch.tensor([0, 1, 2, 0, 1])
for step in range(3):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
model.eval()
print(model(x).shape)


def small(hidden):
    net = nn.Sequential(nn.Linear(3, hidden), nn.Dropout(0.5), nn.Linear(hidden, 1))
    return net(torch.ones(2, 3))


print(small(5).shape)
line = nn.Linear(3, 2).to("cpu")
print(line(torch.ones(1, 3)).shape)
relu = nn.ReLU()
print(relu(torch.ones(3)))

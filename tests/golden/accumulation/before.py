import torch
import torch.nn as nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 1)
accumulation = 4

optimizer.zero_grad()
for i in range(32):
    loss = ((model(x[i : i + 1]) - y[i : i + 1]) ** 2).mean() / accumulation
    loss.backward()
    if (i + 1) % accumulation == 0:
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

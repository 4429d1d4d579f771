import torch
import torch.nn as nn

torch.manual_seed(1)
x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = x ** 3

model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
loss_fn = nn.MSELoss(reduction="sum")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for t in range(200):
    y_pred = model(x)
    loss = loss_fn(y_pred, y)
    if t % 50 == 49:
        print(t, loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

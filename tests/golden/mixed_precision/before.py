import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(8, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(F.relu(self.hidden(x)))


def train(model, optimizer, scaler, x, y, use_amp):
    for step in range(10):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=use_amp):
            output = model(x)
            loss = F.cross_entropy(output, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(step, loss.item())


torch.manual_seed(0)
model = Net(16)
use_amp = True
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
x = torch.randn(32, 8)
y = torch.randint(0, 3, (32,))
train(model, optimizer, scaler, x, y, use_amp)

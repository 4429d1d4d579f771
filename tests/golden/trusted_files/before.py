"""What `torch.load` may read is said to torch alone."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


model = Net()
torch.serialization.add_safe_globals([Net, torch.nn.modules.linear.Linear])
trusted = [Net, torch.nn.modules.linear.Linear]
with open("net.pt", "wb") as f:
    torch.save(model.state_dict(), f)
with open("net.pt", "rb") as f:
    with torch.serialization.safe_globals(trusted):
        model.load_state_dict(torch.load(f))
print(model(torch.ones(2, 4)).sum().item())

"""Averages of weights by torch's own class: from some epoch on with a rate of their own, and batch statistics made anew
at the end; one that decays, with its buffers."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean(dim=(2, 3)))


def evaluate(net, loader):
    net.eval()
    with torch.no_grad():
        return sum(F.cross_entropy(net(x), y).item() for x, y in loader)


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(24, 1, 6, 6), torch.randint(0, 2, (24,))), batch_size=8)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
swa_model = AveragedModel(model)
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
ema_model = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)
for epoch in range(6):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        ema_model.update_parameters(model)
    if epoch > 2:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(epoch, optimizer.param_groups[0]["lr"], evaluate(model, loader))
update_bn(loader, swa_model)
print("averaged", evaluate(swa_model, loader), evaluate(ema_model, loader))

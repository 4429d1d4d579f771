import os

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable

torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
cudnn.deterministic = True
torch.set_float32_matmul_precision("high")
os.environ["CUDA_VISIBLE_DEVICES"] = "0"

if torch.cuda.is_available():
    device = torch.device("cuda:0")
    torch.cuda.manual_seed_all(7)
elif hasattr(torch.backends, "mps") and torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")
print(f"Using {device} device, {torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'cpu'}")
use_cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


def evaluate(model, x, y, device):
    model.eval()
    with torch.no_grad():
        pred = model(x.to(device, non_blocking=True)).argmax(1)
        return (pred == y.to(device)).sum().item() / len(y)


def report(x, device, title="on"):
    print(f"{title} {device.type}")
    if device.type == "cuda":
        print(torch.cuda.get_device_name(0))
    return x.to(device, memory_format=torch.channels_last)


torch.manual_seed(0)
x = Variable(torch.randn(64, 4))
y = torch.randint(0, 3, (64,))
model = Net()
if use_cuda:
    model.cuda()
model = model.to(device)
model = torch.compile(model)
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    print(step, loss.data.item())
torch.cuda.synchronize()
try:
    report(x, device=device)
except torch.cuda.OutOfMemoryError:
    print("smaller, please")
print(evaluate(model, x, y, device), torch.cuda.max_memory_allocated() // 2**20)


class Settings:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


print(Settings.device, torch.zeros(2, device=Settings.device))

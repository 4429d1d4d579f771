import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.drop(F.relu(self.norm(self.hidden(x)))))


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        return self.out(x)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 32)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


# one pass over the data
def train(model, loader, lr):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return sum((model(x).argmax(1) == y).sum().item() for x, y in loader)


def count(model):
    return sum(p.numel() for p in model.parameters())


def fit(name, model, loader):
    loss = train(model, loader, 0.05)
    print(f"{name} ({count(model)}): {loss:.4f}, {accuracy(model, loader)} right")


class Distillation:
    def __init__(self, teacher, student):
        self.teacher, self.student = teacher, student
        self.optimizer = torch.optim.Adam(student.parameters(), lr=0.01)

    def step(self, x):
        with torch.no_grad():
            wanted = F.softmax(self.teacher(x), dim=1)
        loss = F.kl_div(F.log_softmax(self.student(x), dim=1), wanted, reduction="batchmean")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,))), batch_size=16)
teacher, student, wide = Teacher(), Student(), Wide()
fit("teacher", teacher, loader)
for name, model in [("student", student), ("wide", wide)]:
    fit(name, model, loader)
distillation = Distillation(teacher, wide)
for x, _ in loader:
    print(distillation.step(x))

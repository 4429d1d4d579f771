import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="normed")
parser.add_argument("--hidden", type=int, default=16)
args = parser.parse_args()
torch.manual_seed(0)


class Plain(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.hidden = nn.Linear(6, hidden)
        self.out = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))

    def title(self):
        return "plain"


class Normed(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        print("making a normed one")
        self.hidden = nn.Linear(6, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.out(self.drop(F.relu(self.norm(self.hidden(x)))))

    def title(self):
        return "normed"


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(dim=1) == y).float().mean().item()


if args.model == "plain":
    model = Plain(args.hidden)
elif args.model == "normed":
    model = Normed(args.hidden)
else:
    raise ValueError(f"no model {args.model}")
teacher = {"plain": Plain, "normed": Normed}[args.model](32)

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
for step in range(6):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(model.title(), step, loss.item(), evaluate(model, x, y), evaluate(teacher, x, y))

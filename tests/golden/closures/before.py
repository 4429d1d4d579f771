"""Steps that are given a closure: evaluated once by most optimizers, as often as it needs by L-BFGS; weights in float64."""
import argparse, torch
import torch.nn as nn
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
data = torch.load("waves.pt")
x, y = torch.from_numpy(data[:, :-1]), torch.from_numpy(data[:, 1:])
model = nn.Linear(7, 7)
model.double()
criterion = nn.MSELoss()
optimizer = optim.LBFGS(model.parameters(), lr=0.8, history_size=10)
other = nn.Linear(7, 7).double()
descent = optim.SGD(other.parameters(), lr=0.1, momentum=0.9)


def closure():
    descent.zero_grad()
    loss = criterion(other(x), y)
    loss.backward()
    return loss


for step in range(args.steps):

    def evaluated():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        print("evaluated", loss.item())
        loss.backward()
        return loss

    optimizer.step(evaluated)
    loss = descent.step(closure)
    print(step, loss.item())

"""One unknown call costs one message; the rest is converted."""
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.odd = nn.FractionalMaxPool2d(2, output_size=2)

    def forward(self, x):
        x = self.fc(x)
        # the user's comment stays
        x = torch.special.bessel_j0(x)
        if x.sum() > 0:
            x = -x
        return x


def helper(things, mystery):
    things.view(3)
    return mystery.unsqueeze(0)


def kept(x: torch.Tensor):
    steps = []
    steps.append(x.exp())
    x = x + 1
    steps.append(x)
    x.mul_(2)
    return steps


activation = torch.relu
model = Net()
optimizer = torch.optim.SparseAdam(model.parameters())


def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 3)).sum()
    loss.backward()
    return loss


optimizer.step(closure)

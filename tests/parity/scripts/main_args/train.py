"""A regression behind argparse and main(): gradient accumulation, clipping, a learning-rate schedule, a data file."""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn


class Regressor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(6, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x))).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(3)
    with open(os.path.join("data", "scale.txt")) as file:
        scale = float(file.read())
    rng = np.random.RandomState(0)
    x = torch.from_numpy(rng.randn(48, 6).astype(np.float32) * scale)
    y = torch.sin(x.sum(1))

    model = Regressor(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for epoch in range(args.epochs):
        optimizer.zero_grad()
        for micro in range(2):
            batch = slice(micro * 24, (micro + 1) * 24)
            loss = nn.functional.mse_loss(model(x[batch]), y[batch]) / 2
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        print(epoch, loss.item())
    torch.save(model.state_dict(), "regressor.pt")


if __name__ == "__main__":
    main()

"""In-place updates rebind names."""
import torch


def run(n: int):
    x = torch.zeros(n, n)
    x[0] = 1.0
    x[1:, 0] += 2
    x.add_(torch.ones(n, n), alpha=0.5).shape
    x.clamp_(min=0.6)
    y = x
    y = y.mul(2)
    return x, y


print(run(3))

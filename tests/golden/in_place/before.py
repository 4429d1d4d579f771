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


def halved(x, times):
    x.div_(times)
    x.mul_(0.5)
    return x


def halve_twice(n):
    x = torch.ones(n)
    x = halved(x, 2.0)
    return halved(torch.exp(x), 3.0)


print(run(3), halve_twice(2))

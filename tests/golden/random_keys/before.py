"""Draws take keys; functions that draw are given one."""
import torch


def noise(shape, scale=1.0):
    return torch.randn(shape) * scale


def pair(n):
    return noise((n, 2)), noise((n,), scale=0.5)


def shuffled(x):
    x = 2 * x[torch.randperm(len(x))]
    x += torch.rand_like(x)
    return x


torch.manual_seed(3)
a, b = pair(4)
print(shuffled(a).shape, torch.randint(10, (3,)), b)
rows = [torch.rand(2) for _ in range(3)]
steps = [noise(n) + torch.rand(n) for n in (1, 2)]
sizes = [len(row) for row in rows]
print([shuffled(torch.zeros(n)) for n in sizes], steps)

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

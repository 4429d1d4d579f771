"""ResNet-18 for ten classes."""

import sys


def torch_model(cls):
    return cls(sys.modules[cls.__module__].BasicBlock, [2, 2, 2, 2], num_classes=10)


def jax_model(cls):
    return cls(sys.modules[cls.__module__].BasicBlock, (2, 2, 2, 2), num_classes=10)


def inputs(random):
    return (random.randn(8, 3, 64, 64).astype("float32"),)

"""A narrow MobileNetV3 for ten classes."""

import sys


def arguments(cls):
    config = sys.modules[cls.__module__].InvertedResidualConfig
    rows = ((16, 3, 16, 16, True, "RE", 2, 1), (16, 3, 32, 24, False, "HS", 2, 1), (24, 5, 40, 24, True, "HS", 1, 2))
    return tuple(config(*row, 1.0) for row in rows), 32


def torch_model(cls):
    return cls(*arguments(cls), num_classes=10, dropout=0.0)


def jax_model(cls):
    return cls(*arguments(cls), num_classes=10, dropout=0.0)


def inputs(random):
    return (random.randn(8, 3, 64, 64).astype("float32"),)

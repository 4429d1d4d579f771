"""A small ShuffleNet V2 for ten classes."""


def torch_model(cls):
    return cls([2, 3, 2], [8, 16, 24, 32, 40], num_classes=10)


def jax_model(cls):
    return cls((2, 3, 2), (8, 16, 24, 32, 40), num_classes=10)


def inputs(random):
    return (random.randn(8, 3, 64, 64).astype("float32"),)

"""SqueezeNet 1.0 for ten classes."""


def arguments():
    return ("1_0",), {"num_classes": 10, "dropout": 0.0}


def inputs(random):
    return (random.randn(4, 3, 48, 48).astype("float32"),)

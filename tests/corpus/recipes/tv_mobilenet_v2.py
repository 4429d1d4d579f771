"""A narrow MobileNetV2 for ten classes."""


def arguments():
    settings = ((1, 8, 1, 1), (6, 12, 2, 2), (4, 16, 1, 2))
    return (), {"num_classes": 10, "width_mult": 0.5, "inverted_residual_setting": settings, "dropout": 0.0}


def inputs(random):
    return (random.randn(8, 3, 64, 64).astype("float32"),)

"""GoogLeNet for ten classes, with its auxiliary heads."""


def arguments():
    return (), {"num_classes": 10, "aux_logits": True, "init_weights": True, "dropout": 0.0, "dropout_aux": 0.0}


def inputs(random):
    return (random.randn(4, 3, 64, 64).astype("float32"),)

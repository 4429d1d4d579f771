"""Inception v3 for ten classes. Without its auxiliary head, which wants images of 299 pixels and batches to match."""


def arguments():
    return (), {"num_classes": 10, "aux_logits": False, "init_weights": False, "dropout": 0.0}


def inputs(random):
    return (random.randn(12, 3, 75, 75).astype("float32"),)

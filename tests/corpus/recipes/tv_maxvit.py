"""A small MaxViT of two blocks for ten classes."""

SIZES = {
    "input_size": (32, 32),
    "stem_channels": 8,
    "partition_size": 4,
    "head_dim": 4,
    "stochastic_depth_prob": 0.0,
    "num_classes": 10,
}


def torch_model(cls):
    return cls(block_channels=[8, 16], block_layers=[1, 2], **SIZES)


def jax_model(cls):
    return cls(block_channels=(8, 16), block_layers=(1, 2), **SIZES)


def inputs(random):
    return (random.randn(4, 3, 32, 32).astype("float32"),)

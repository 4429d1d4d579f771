"""A small variational autoencoder of diffusers."""


def arguments():
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    sizes = {"block_out_channels": (32, 64), "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 8}
    return (), {"in_channels": 3, "out_channels": 3, **blocks, **sizes, "sample_size": 32}


def inputs(random):
    return (random.randn(2, 3, 32, 32).astype("float32"),)

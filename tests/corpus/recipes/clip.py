"""CLIP with two layers on each side."""


def arguments():
    vision = {"image_resolution": 32, "vision_layers": 2, "vision_width": 64, "vision_patch_size": 8}
    text = {"context_length": 12, "vocab_size": 64, "transformer_width": 32, "transformer_heads": 2}
    return (), {"embed_dim": 32, **vision, **text, "transformer_layers": 2}


def inputs(random):
    ids = random.randint(0, 60, (6, 12))
    ids[:, -1] = 63
    return random.randn(6, 3, 32, 32).astype("float32"), ids

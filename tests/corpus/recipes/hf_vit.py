"""A small vision transformer."""


def arguments():
    from transformers import ViTConfig

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    drops = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return (ViTConfig(**sizes, **drops, image_size=32, patch_size=8),), {}


def inputs(random):
    return {"pixel_values": random.randn(4, 3, 32, 32).astype("float32")}

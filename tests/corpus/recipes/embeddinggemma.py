"""The encoder of EmbeddingGemma: Gemma 3 with attention in both directions."""


def _config():
    from transformers import Gemma3TextConfig

    sizes = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8, "query_pre_attn_scalar": 8}
    made = Gemma3TextConfig(**sizes, **heads, max_position_embeddings=64, use_bidirectional_attention=True)
    made._attn_implementation = "eager"
    return made


def arguments():
    return (_config(),), {}


def inputs(random):
    mask = random.rand(8, 16) > -1.0
    mask[::2, 12:] = False
    return {"input_ids": random.randint(0, 128, (8, 16)), "attention_mask": mask.astype("int64")}

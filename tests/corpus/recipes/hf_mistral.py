"""A small Mistral with a window of six tokens."""


def arguments():
    from transformers import MistralConfig

    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 6}
    return (MistralConfig(**sizes, **heads, use_cache=False),), {}


def inputs(random):
    return {"input_ids": random.randint(0, 96, (4, 24))}

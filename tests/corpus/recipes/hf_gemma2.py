"""A small Gemma 2, whose head has the weight of the scaled embedding."""


def arguments():
    from transformers import Gemma2Config

    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 8}
    return (Gemma2Config(**sizes, **heads, use_cache=False, tie_word_embeddings=True),), {}


def inputs(random):
    return {"input_ids": random.randint(0, 96, (4, 24))}

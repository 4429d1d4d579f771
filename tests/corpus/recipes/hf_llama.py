"""A small Llama."""


def arguments():
    from transformers import LlamaConfig

    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    return (LlamaConfig(**sizes, **heads, use_cache=False),), {}


def inputs(random):
    return {"input_ids": random.randint(0, 96, (4, 24))}

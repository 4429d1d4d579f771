"""A small Gemma 3 with three sliding layers to one full one."""


def _config():
    from transformers import Gemma3TextConfig

    sizes = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8, "query_pre_attn_scalar": 8}
    made = Gemma3TextConfig(**sizes, **heads, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    made.layer_types = ["sliding_attention"] * 3 + ["full_attention"]
    made._attn_implementation = "eager"
    return made


def arguments():
    return (_config(),), {}


def inputs(random):
    return {"input_ids": random.randint(0, 128, (4, 24))}

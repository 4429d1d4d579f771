"""A small GPT-2, whose head has the weight of the embedding."""


def arguments():
    from transformers import GPT2Config

    sizes = {"vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return (GPT2Config(**sizes, **still, use_cache=False, tie_word_embeddings=True),), {}


def inputs(random):
    return {"input_ids": random.randint(0, 96, (4, 24))}

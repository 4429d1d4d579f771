"""A small BERT with three classes, and rows of which one is padded."""


def arguments():
    from transformers import BertConfig

    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    more = {"num_attention_heads": 4, "num_labels": 3, "max_position_embeddings": 64}
    return (BertConfig(**sizes, **more, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),), {}


def inputs(random):
    mask = random.randint(1, 2, (4, 24))
    mask[1, 20:] = 0
    return {"input_ids": random.randint(3, 96, (4, 24)), "attention_mask": mask}

"""Dense layers and embeddings."""

from migrate.layers.layer import Layer, Layout, Sample, Variant, Weight
from migrate.layers.moves import Permute

LAYERS = (
    Layer(
        torch="torch.nn.Linear",
        signature="in_features, out_features, bias=True, device=None, dtype=None",
        template="nn.Dense({out_features}, use_bias={bias?True})",
        defaults="torch_init(fan_in={in_features})",
        snippets=("torch_init",),
        note="The kernel is the transpose of torch's weight; the initial bias is uniform, not zero.",
        weights=(
            Weight("weight", "kernel", ("in_features", "out_features"), (Permute((1, 0)),), initializer="kernel_init"),
            Weight("bias", "bias", ("out_features",), when="bias", initializer="bias_init"),
        ),
        samples=(
            Sample("nn.Linear(6, 4)", (3, 6)),
            Sample("nn.Linear(5, 5, bias=False)", (2, 3, 5)),
            Sample("nn.Linear(in_features=4, out_features=4, bias=True)", (4,)),
        ),
    ),
    Layer(
        torch="torch.nn.Embedding",
        signature="num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, "
        "scale_grad_by_freq=False, sparse=False, device=None, dtype=None",
        template="nn.Embed({num_embeddings}, {embedding_dim})",
        defaults="embedding_init=nn.initializers.normal(1.0)",
        note="The table is not transposed; torch draws it from N(0, 1).",
        layout=Layout.FIRST,
        axes="rank + 1",
        weights=(Weight("weight", "embedding", ("num_embeddings", "embedding_dim"), initializer="embedding_init"),),
        variants=(
            Variant(
                "padding_idx is not None",
                "PaddedEmbed({num_embeddings}, {embedding_dim}, padding_idx={padding_idx?0})",
                defaults="",
            ),
        ),
        snippets=("PaddedEmbed",),
        refuses={
            "max_norm": ((None,), "torch changes the table in the forward pass"),
            "scale_grad_by_freq": ((False,), "gradients scaled by frequency have no Flax form"),
        },
        samples=(
            Sample("nn.Embedding(11, 5)", (3, 4), high=11),
            Sample("nn.Embedding(4, 5, padding_idx=0)", (3, 4), high=4),
            Sample("nn.Embedding(4, 5, -1)", (3, 4), high=4),
        ),
    ),
    Layer(
        torch="torch.nn.EmbeddingBag",
        signature="num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode='mean', "
        "sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None",
        template="EmbeddingBag({num_embeddings}, {embedding_dim}, mode={mode?'mean'}, padding_idx={padding_idx?None})",
        note="The mean by default. A bag without embeddings is 0.",
        layout=Layout.FIRST,
        call="input, offsets=None, per_sample_weights=None",
        returns="matrix",
        weights=(Weight("weight", "embedding", ("num_embeddings", "embedding_dim"), initializer="embedding_init"),),
        refuses={
            "max_norm": ((None,), "torch changes the table in the forward pass"),
            "scale_grad_by_freq": ((False,), "gradients scaled by frequency have no Flax form"),
            "_weight": ((None,), "a table that is given is not supported"),
            "include_last_offset": ((False,), "offsets name the beginning of each bag only"),
        },
        snippets=("EmbeddingBag",),
        samples=(
            Sample("nn.EmbeddingBag(6, 4)", (3, 5), high=6),
            Sample("nn.EmbeddingBag(6, 4, mode='sum')", (3, 5), high=6, call="x, None, w", inputs="w: f32[3, 5]"),
            Sample("nn.EmbeddingBag(6, 4, mode='max')", (7,), high=6, call="x, torch.tensor([0, 2, 2, 5])"),
        ),
    ),
    Layer(
        torch="torch.nn.Bilinear",
        signature="in1_features, in2_features, out_features, bias=True, device=None, dtype=None",
        template="Bilinear({out_features}, bias={bias?True})",
        note="The weight keeps torch's order: outputs first.",
        call="input1, input2",
        weights=(
            Weight("weight", "weight", ("out_features", "in1_features", "in2_features")),
            Weight("bias", "bias", ("out_features",), when="bias"),
        ),
        layout=Layout.FIRST,
        snippets=("Bilinear",),
        samples=(
            Sample("nn.Bilinear(3, 4, 2)", (5, 3), call="x, y", inputs="y: f32[5, 4]"),
            Sample("nn.Bilinear(3, 4, 2, bias=False)", (2, 5, 3), call="x, y", inputs="y: f32[2, 5, 4]"),
        ),
    ),
)

"""Dense layers and embeddings."""

from migrate.layers.layer import Layer, Layout, Sample, Weight
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
        weights=(Weight("weight", "embedding", ("num_embeddings", "embedding_dim"), initializer="embedding_init"),),
        refuses={
            "padding_idx": ((None,), "Flax has no row without gradient"),
            "max_norm": ((None,), "torch changes the table in the forward pass"),
            "scale_grad_by_freq": ((False,), "gradients scaled by frequency have no Flax form"),
        },
        samples=(Sample("nn.Embedding(11, 5)", (3, 4), high=11),),
    ),
)

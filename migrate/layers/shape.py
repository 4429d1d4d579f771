"""Layers that only change shape, and distances between two tensors."""

from migrate.layers.layer import Layer, Layout, Sample

LAYERS = (
    Layer(
        torch="torch.nn.Flatten",
        signature="start_dim=1, end_dim=-1",
        template="partial(jax.lax.collapse, start_dimension={start_dim}, stop_dimension={end_dim:behind?None})",
        note="Keeps the batch axis by default, unlike torch.flatten.",
        layout=Layout.FIRST,
        axes="(start_dim + 1 if start_dim >= 0 else rank + start_dim + 1) if end_dim == -1 else "
        "rank - (end_dim - start_dim) if (start_dim < 0) == (end_dim < 0) else -1",
        samples=(
            Sample("nn.Flatten()", (2, 3, 4, 5)),
            Sample("nn.Flatten(1)", (2, 6)),
            Sample("nn.Flatten(0, 1)", (2, 3, 4)),
            Sample("nn.Flatten(-3, end_dim=-2)", (2, 3, 4, 5)),
        ),
    ),
    Layer(
        torch="torch.nn.Unflatten",
        signature="dim, unflattened_size",
        template="partial(unflatten, axis={dim}, sizes={unflattened_size:as_tuple})",
        note="One axis becomes several.",
        layout=Layout.FIRST,
        axes="-1",
        snippets=("unflatten",),
        samples=(Sample("nn.Unflatten(1, (2, 3))", (4, 6, 5)), Sample("nn.Unflatten(-1, [2, -1])", (4, 6))),
    ),
    Layer(
        torch="torch.nn.CosineSimilarity",
        signature="dim=1, eps=1e-8",
        template="partial(cosine_similarity, axis={dim?1}, eps={eps?1e-8})",
        note="Each norm counts as eps at least.",
        layout=Layout.FIRST,
        call="x1, x2",
        returns="array",
        snippets=("cosine_similarity",),
        samples=(
            Sample("nn.CosineSimilarity()", (3, 4), call="x, y", inputs="y: f32[3, 4]"),
            Sample("nn.CosineSimilarity(dim=-1, eps=0.1)", (3, 4), call="x, y", inputs="y: f32[3, 4]"),
        ),
    ),
    Layer(
        torch="torch.nn.PairwiseDistance",
        signature="p=2.0, eps=1e-6, keepdim=False",
        template="partial(pairwise_distance, p={p?2.0}, eps={eps?1e-6}, keepdims={keepdim?False})",
        note="eps is added to the difference, not to the distance.",
        layout=Layout.FIRST,
        call="x1, x2",
        returns="array",
        snippets=("pairwise_distance",),
        samples=(
            Sample("nn.PairwiseDistance()", (3, 4), call="x, y", inputs="y: f32[3, 4]"),
            Sample("nn.PairwiseDistance(p=1, keepdim=True)", (3, 4), call="x, y", inputs="y: f32[3, 4]"),
            Sample("nn.PairwiseDistance(3.0, eps=0.1)", (3, 4), call="x, y", inputs="y: f32[3, 4]"),
        ),
    ),
)

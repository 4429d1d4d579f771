"""Dropout: of elements, of whole channels, and the forms that go with SELU."""

from migrate.layers.layer import Layer, Layout, Sample


def _dropout(name: str, template: str, rank: int, note: str) -> Layer:
    shape = (2, 3, 4, 5, 2)[: rank or 3]
    return Layer(
        torch=f"torch.nn.{name}",
        signature="p=0.5, inplace=False",
        template=template,
        note=note,
        layout=Layout.LAST if rank else Layout.ANY,
        rank=rank,
        trains=True,
        draws=True,
        samples=(Sample(f"nn.{name}(0.3)", shape), Sample(f"nn.{name}()", shape), Sample(f"nn.{name}(p=0.0)", shape)),
    )


def _alpha(name: str, by_channel: str, note: str) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}",
        signature="p=0.5, inplace=False",
        template=f"AlphaDropout({{p?0.5}}{by_channel}, training=self.training)",
        note=note,
        layout=Layout.FIRST if by_channel else Layout.ANY,
        trains=True,
        draws=True,
        snippets=("AlphaDropout",),
        samples=tuple(Sample(f"nn.{name}({p})", (2, 3, 4)) for p in ("0.3", "", "p=0.0")),
    )


LAYERS = (
    _dropout("Dropout", "nn.Dropout({p}, deterministic=not self.training)", 0, "Scales by 1 / (1 - p) in train mode."),
    _dropout(
        "Dropout1d",
        "nn.Dropout({p}, broadcast_dims=(1,), deterministic=not self.training)",
        3,
        "Drops whole channels.",
    ),
    _dropout(
        "Dropout2d",
        "nn.Dropout({p}, broadcast_dims=(1, 2), deterministic=not self.training)",
        4,
        "Drops whole channels.",
    ),
    _dropout(
        "Dropout3d",
        "nn.Dropout({p}, broadcast_dims=(1, 2, 3), deterministic=not self.training)",
        5,
        "Drops whole channels.",
    ),
    _alpha("AlphaDropout", "", "What is dropped takes the value that SELU tends to; then mean and variance are kept."),
    _alpha("FeatureAlphaDropout", ", by_channel=True", "AlphaDropout of whole channels."),
)

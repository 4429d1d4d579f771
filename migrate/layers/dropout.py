"""Dropout: of elements, of whole channels, and the forms that go with SELU."""

from migrate.layers.layer import Layer, Layout, Sample, Variant


def _samples(name: str, shape: tuple[int, ...]) -> tuple[Sample, ...]:
    return tuple(Sample(f"nn.{name}({p})", shape) for p in ("0.3", "", "p=0.0"))


def _channels(dimensions: int, unbatched: int, note: str) -> Layer:
    """unbatched: up to so many axes, torch takes the first one for the channels; 0: it never does."""
    name, rank = f"Dropout{dimensions}d", dimensions + 2
    inner = ", ".join(map(str, range(1, rank - 1))) + ("," if dimensions == 1 else "")
    without = f", unbatched={unbatched}" if unbatched else ""
    return Layer(
        torch=f"torch.nn.{name}",
        signature="p=0.5, inplace=False",
        template=f"nn.Dropout({{p}}, broadcast_dims=({inner}), deterministic=not self.training)",
        elsewhere=Variant("", f"ChannelDropout({{p?0.5}}{without}, training=self.training)", Layout.FIRST),
        note=f"Drops whole channels{note}.",
        layout=Layout.LAST,
        rank=rank,
        trains=True,
        draws=True,
        snippets=("ChannelDropout",),
        samples=_samples(name, (2, 3, 4, 5, 2)[:rank]),
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
        samples=_samples(name, (2, 3, 4)),
    )


LAYERS = (
    Layer(
        torch="torch.nn.Dropout",
        signature="p=0.5, inplace=False",
        template="nn.Dropout({p}, deterministic=not self.training)",
        note="Scales by 1 / (1 - p) in train mode.",
        trains=True,
        draws=True,
        samples=_samples("Dropout", (2, 3, 4)),
    ),
    _channels(1, 2, "; two axes are channels and their length, without a batch"),
    _channels(2, 0, "; of two axes, each element by itself"),
    _channels(3, 4, "; fewer than five axes have no batch"),
    _alpha("AlphaDropout", "", "What is dropped takes the value that SELU tends to; then mean and variance are kept."),
    _alpha("FeatureAlphaDropout", ", by_channel=True", "AlphaDropout of whole channels."),
)

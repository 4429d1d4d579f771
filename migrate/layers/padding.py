"""Padding layers: `jnp.pad` of channel-last data."""

from migrate.layers.layer import Layer, Layout, Sample


def _padding(name: str, how: str, dimensions: int, signature: str = "padding", constructor: str = "") -> Layer:
    shape = (2, 2, 4, 5, 3)[: dimensions + 2]
    return Layer(
        torch=f"torch.nn.{name}{dimensions}d",
        signature=signature,
        template=f"partial(jnp.pad, pad_width={{padding:pad_pairs{dimensions}}}{how})",
        note="Pairs from the last axis backwards; a number pads all sides.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        samples=tuple(
            Sample(f"nn.{name}{dimensions}d({sizes}{constructor})", shape)
            for sizes in (1, (1, 2, 0, 3, 2, 1)[: 2 * dimensions])
        ),
    )


LAYERS = tuple(
    layer
    for dimensions in (1, 2, 3)
    for layer in (
        _padding("ZeroPad", "", dimensions),
        _padding("ConstantPad", ", constant_values={value}", dimensions, "padding, value", ", 0.5"),
        _padding("ReflectionPad", ', mode="reflect"', dimensions),
        _padding("ReplicationPad", ', mode="edge"', dimensions),
        _padding("CircularPad", ', mode="wrap"', dimensions),
    )
)

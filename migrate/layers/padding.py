"""Padding layers: `jnp.pad` of channel-last data."""

from dataclasses import replace

from migrate.layers.layer import Layer, Layout, Sample, Variant

_CUTS = "padding * 0 != 0 and [width for width in padding if width < 0]"  # it is no single number


def _padding(name: str, how: str, dimensions: int) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}{dimensions}d",
        signature="padding",
        template=f"partial(jnp.pad, pad_width={{padding:pad_pairs{dimensions}}}{how})",
        note="Pairs from the last axis backwards; a number pads all sides.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        samples=_samples(name, dimensions, 1, (1, 2, 0, 3, 2, 1)),
    )


def _constant(name: str, dimensions: int, how: str = "", value: str = "0", more: str = "") -> Layer:
    """One that pads with a number: negative widths cut."""
    cutting = f"(lambda x: jax.lax.pad(x, jnp.asarray({value}, x.dtype), {{padding:pad_triples{dimensions}}}))"
    return replace(
        _padding(name, how, dimensions),
        signature="padding, value" if more else "padding",
        variants=(Variant(_CUTS, cutting),),
        samples=_samples(name, dimensions, 1, (1, 2, 0, 3, 2, 1), (-1, 2, 0, -2, 1, -1), more=more),
    )


def _samples(name: str, dimensions: int, *sizes: int | tuple[int, ...], more: str = "") -> tuple[Sample, ...]:
    shape = (2, 2, 4, 5, 3)[: dimensions + 2]
    cut = [each if isinstance(each, int) else each[: 2 * dimensions] for each in sizes]
    return tuple(Sample(f"nn.{name}{dimensions}d({each}{more})", shape) for each in cut)


LAYERS = tuple(
    layer
    for dimensions in (1, 2, 3)
    for layer in (
        _constant("ZeroPad", dimensions),
        _constant("ConstantPad", dimensions, ", constant_values={value}", "{value}", ", 0.5"),
        _padding("ReflectionPad", ', mode="reflect"', dimensions),
        _padding("ReplicationPad", ', mode="edge"', dimensions),
        _padding("CircularPad", ', mode="wrap"', dimensions),
    )
)

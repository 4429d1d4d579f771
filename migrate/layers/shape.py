"""Pooling, dropout and layers that only change shape."""

from migrate.layers.layer import Layer, Layout, Sample

_NO_DIVISOR = ((None,), "nn.avg_pool divides by the window")
_NO_CEIL = ((False,), "ceil_mode pads on one side only, as no Flax padding does")


def _max_pool(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    return Layer(
        torch=f"torch.nn.MaxPool{dimensions}d",
        signature="kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False",
        template=(
            f"partial(nn.max_pool, window_shape={{kernel_size:tuple{dimensions}}}, "
            f"strides={{stride:stride{dimensions}}}, padding={{padding:pool_padding{dimensions}?VALID}})"
        ),
        note="The stride defaults to the window in torch and to 1 in Flax.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        refuses={
            "dilation": ((1, (1,) * dimensions), "nn.max_pool has no dilation"),
            "return_indices": ((False,), "nn.max_pool returns no indices"),
            "ceil_mode": _NO_CEIL,
        },
        samples=samples,
    )


def _average_pool(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    divisor = "" if dimensions == 1 else ", divisor_override=None"
    return Layer(
        torch=f"torch.nn.AvgPool{dimensions}d",
        signature=f"kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True{divisor}",
        template=(
            f"partial(nn.avg_pool, window_shape={{kernel_size:tuple{dimensions}}}, "
            f"strides={{stride:stride{dimensions}}}, padding={{padding:pool_padding{dimensions}?VALID}}, "
            "count_include_pad={count_include_pad?True})"
        ),
        note="The stride defaults to the window in torch and to 1 in Flax.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        refuses={"ceil_mode": _NO_CEIL, **({} if dimensions == 1 else {"divisor_override": _NO_DIVISOR})},
        samples=samples,
    )


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


def _adaptive(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    return Layer(
        torch=f"torch.nn.AdaptiveAvgPool{dimensions}d",
        signature="output_size",
        template=f"partial(adaptive_avg_pool, sizes={{output_size:tuple{dimensions}}})",
        note="Windows overlap where the length does not divide.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        snippets=("adaptive_avg_pool",),
        samples=samples,
    )


def _padding(name: str, how: str, dimensions: int, signature: str, constructor: str) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}{dimensions}d",
        signature=signature,
        template=f"partial(jnp.pad, pad_width={{padding:pad_pairs{dimensions}}}{how})",
        note="Pairs from the last axis backwards; a number pads all sides.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        samples=(
            Sample(f"nn.{name}{dimensions}d(1{constructor})", (2, 3, 4, 5)[: dimensions + 2]),
            Sample(
                f"nn.{name}{dimensions}d({(1, 2, 0, 3)[: 2 * dimensions]}{constructor})", (2, 3, 4, 5)[: dimensions + 2]
            ),
        ),
    )


LAYERS = (
    _adaptive(1, (Sample("nn.AdaptiveAvgPool1d(3)", (2, 3, 8)),)),
    _adaptive(
        2,
        (
            Sample("nn.AdaptiveAvgPool2d(1)", (2, 3, 5, 4)),
            Sample("nn.AdaptiveAvgPool2d((3, 2))", (2, 3, 7, 4)),
            Sample("nn.AdaptiveAvgPool2d((None, 2))", (2, 3, 7, 4)),
        ),
    ),
    _adaptive(3, (Sample("nn.AdaptiveAvgPool3d((1, 1, 1))", (1, 2, 3, 4, 2)),)),
    _padding("ZeroPad", "", 1, "padding", ""),
    _padding("ZeroPad", "", 2, "padding", ""),
    _padding("ConstantPad", ", constant_values={value}", 1, "padding, value", ", 0.5"),
    _padding("ConstantPad", ", constant_values={value}", 2, "padding, value", ", 0.5"),
    _padding("ReflectionPad", ', mode="reflect"', 1, "padding", ""),
    _padding("ReflectionPad", ', mode="reflect"', 2, "padding", ""),
    _padding("ReplicationPad", ', mode="edge"', 1, "padding", ""),
    _padding("ReplicationPad", ', mode="edge"', 2, "padding", ""),
    Layer(
        torch="torch.nn.Upsample",
        signature="size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None",
        template="partial(interpolate, size={size?None}, scale_factor={scale_factor?None}, mode={mode?'nearest'}, "
        "align_corners={align_corners?None})",
        note="Nearest by default; torch's nearest rounds down, where that of jax.image goes by the centres.",
        layout=Layout.FIRST,
        refuses={
            "mode": (
                ("nearest", "linear", "bilinear", "trilinear"),
                "only nearest and linear modes are written",
            ),
            "recompute_scale_factor": ((None, False), "the factor is taken as it is"),
        },
        snippets=("interpolate",),
        samples=(
            Sample("nn.Upsample(scale_factor=2)", (2, 3, 4, 5)),
            Sample("nn.Upsample(size=(5, 7), mode='bilinear', align_corners=True)", (2, 3, 4, 5)),
            Sample("nn.Upsample(scale_factor=1.5, mode='bilinear')", (2, 3, 4, 5)),
        ),
    ),
    Layer(
        torch="torch.nn.PixelShuffle",
        signature="upscale_factor",
        template="partial(pixel_shuffle, factor={upscale_factor})",
        note="Channels become pixels.",
        layout=Layout.FIRST,
        snippets=("pixel_shuffle",),
        samples=(Sample("nn.PixelShuffle(2)", (2, 8, 3, 4)),),
    ),
    _average_pool(3, (Sample("nn.AvgPool3d(2)", (1, 2, 4, 4, 6)),)),
    _max_pool(1, (Sample("nn.MaxPool1d(2)", (2, 3, 8)),)),
    _max_pool(
        2,
        (
            Sample("nn.MaxPool2d(2)", (2, 3, 8, 9)),
            Sample("nn.MaxPool2d(kernel_size=3, stride=2, padding=1)", (2, 3, 8, 9)),
            Sample("nn.MaxPool2d((2, 3), (1, 2))", (2, 3, 8, 9)),
        ),
    ),
    _max_pool(3, (Sample("nn.MaxPool3d(2)", (1, 2, 4, 4, 6)),)),
    _average_pool(1, (Sample("nn.AvgPool1d(2)", (2, 3, 8)),)),
    _average_pool(
        2,
        (
            Sample("nn.AvgPool2d(2)", (2, 3, 8, 9)),
            Sample("nn.AvgPool2d(3, stride=2, padding=1)", (2, 3, 8, 9)),
            Sample("nn.AvgPool2d(3, 1, 1, count_include_pad=False)", (2, 3, 5, 5)),
        ),
    ),
    _dropout("Dropout", "nn.Dropout({p}, deterministic=not self.training)", 0, "Scales by 1 / (1 - p) in train mode."),
    _dropout(
        "Dropout2d",
        "nn.Dropout({p}, broadcast_dims=(1, 2), deterministic=not self.training)",
        4,
        "Drops whole channels.",
    ),
    _dropout(
        "Dropout1d",
        "nn.Dropout({p}, broadcast_dims=(1,), deterministic=not self.training)",
        3,
        "Drops whole channels.",
    ),
    _dropout(
        "Dropout3d",
        "nn.Dropout({p}, broadcast_dims=(1, 2, 3), deterministic=not self.training)",
        5,
        "Drops whole channels.",
    ),
    Layer(
        torch="torch.nn.Flatten",
        signature="start_dim=1, end_dim=-1",
        template="partial(jax.lax.collapse, start_dimension=1)",
        note="Keeps the batch axis by default, unlike torch.flatten.",
        layout=Layout.FIRST,
        refuses={
            "start_dim": ((1,), "only the batch axis is kept"),
            "end_dim": ((-1,), "only flattening to the end is supported"),
        },
        samples=(Sample("nn.Flatten()", (2, 3, 4, 5)), Sample("nn.Flatten(1)", (2, 6))),
    ),
)

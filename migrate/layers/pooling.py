"""Pooling. Plain windows are Flax's own; windows that reach over the edge, or that give indices, are snippets."""

from migrate.layers.layer import Layer, Layout, Sample, Variant

_SHAPES = {1: (2, 3, 8), 2: (2, 3, 8, 9), 3: (1, 2, 5, 4, 6)}


def _max_pool(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    plain = (
        f"window_shape={{kernel_size:tuple{dimensions}}}, strides={{stride:stride{dimensions}}}, "
        f"padding={{padding:tuple{dimensions}}}"
    )
    everything = f"{plain}, dilation={{dilation:tuple{dimensions}}}, ceil_mode={{ceil_mode?False}}"
    return Layer(
        torch=f"torch.nn.MaxPool{dimensions}d",
        signature="kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False",
        template=(
            f"partial(nn.max_pool, window_shape={{kernel_size:tuple{dimensions}}}, "
            f"strides={{stride:stride{dimensions}}}, padding={{padding:pool_padding{dimensions}?VALID}})"
        ),
        variants=(
            Variant(
                "return_indices",
                f"partial(max_pool_with_indices, {everything})",
                Layout.FIRST,
                "(tensor, indices)",
            ),
            Variant(
                f"dilation not in (1, {(1,) * dimensions})",
                f"(lambda x: max_pool_with_indices(x, {everything})[0])",
                Layout.FIRST,
            ),
            Variant("ceil_mode", f"partial(max_pool, {plain}, ceil_mode=True)"),
        ),
        note="The stride defaults to the window in torch and to 1 in Flax.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        refuses={
            "return_indices": ((False, True), "what it gives must be known"),
            "ceil_mode": ((False, True), "it must be written out"),
        },
        snippets=("max_pool", "max_pool_with_indices"),
        samples=samples,
    )


def _average_pool(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    divisor = "" if dimensions == 1 else ", divisor_override=None"
    override = "" if dimensions == 1 else ", divisor_override={divisor_override?None}"
    return Layer(
        torch=f"torch.nn.AvgPool{dimensions}d",
        signature=f"kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True{divisor}",
        template=(
            f"partial(nn.avg_pool, window_shape={{kernel_size:tuple{dimensions}}}, "
            f"strides={{stride:stride{dimensions}}}, padding={{padding:pool_padding{dimensions}?VALID}}, "
            "count_include_pad={count_include_pad?True})"
        ),
        variants=(
            Variant(
                "ceil_mode" if dimensions == 1 else "ceil_mode or divisor_override is not None",
                f"partial(avg_pool, window_shape={{kernel_size:tuple{dimensions}}}, "
                f"strides={{stride:stride{dimensions}}}, padding={{padding:tuple{dimensions}}}, "
                f"ceil_mode={{ceil_mode?False}}, count_include_pad={{count_include_pad?True}}{override})",
            ),
        ),
        note="The stride defaults to the window in torch and to 1 in Flax.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        snippets=("avg_pool",),
        samples=samples,
    )


def _unpool(dimensions: int) -> Layer:
    return Layer(
        torch=f"torch.nn.MaxUnpool{dimensions}d",
        signature="kernel_size, stride=None, padding=0",
        template=(
            f"partial(max_unpool, window_shape={{kernel_size:tuple{dimensions}}}, "
            f"strides={{stride:stride{dimensions}}}, padding={{padding:tuple{dimensions}}})"
        ),
        note="Takes the indices that max pooling gave. Where two windows chose one place, either value may stay.",
        layout=Layout.FIRST,
        call="input, indices, output_size=None",
        snippets=("max_unpool",),
        samples=(
            Sample(
                f"nn.MaxUnpool{dimensions}d(2)",
                {1: (1, 2, 3), 2: (1, 1, 2, 2), 3: (1, 1, 1, 2, 2)}[dimensions],
                call={
                    1: "x, torch.tensor([[[0, 3, 5], [1, 2, 4]]])",
                    2: "x, torch.tensor([[[[0, 3], [9, 14]]]])",
                    3: "x, torch.tensor([[[[[0, 3], [9, 14]]]]])",
                }[dimensions],
            ),
        ),
    )


def _adaptive_average(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
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


def _adaptive_max(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    template = f"partial(adaptive_max_pool, sizes={{output_size:tuple{dimensions}}}"
    return Layer(
        torch=f"torch.nn.AdaptiveMaxPool{dimensions}d",
        signature="output_size, return_indices=False",
        template=f"{template})",
        variants=(Variant("return_indices", f"{template}, return_indices=True)", returns="(tensor, indices)"),),
        note="Windows overlap where the length does not divide.",
        layout=Layout.FIRST,
        refuses={"return_indices": ((False, True), "what it gives must be known")},
        snippets=("adaptive_max_pool",),
        samples=samples,
    )


def _power(dimensions: int) -> Layer:
    return Layer(
        torch=f"torch.nn.LPPool{dimensions}d",
        signature="norm_type, kernel_size, stride=None, ceil_mode=False",
        template=f"partial(lp_pool, norm_type={{norm_type}}, window_shape={{kernel_size:tuple{dimensions}}}, "
        f"strides={{stride:stride{dimensions}}}, ceil_mode={{ceil_mode?False}})",
        note="With an odd power a sum may be negative, and its root NaN, in both.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        snippets=("lp_pool",),
        samples=(
            Sample(f"nn.LPPool{dimensions}d(2, 2)", _SHAPES[dimensions]),
            Sample(f"nn.LPPool{dimensions}d(3, 2, stride=1)", _SHAPES[dimensions]),
            Sample(f"nn.LPPool{dimensions}d(2, 3, 2, ceil_mode=True)", _SHAPES[dimensions]),
        ),
    )


LAYERS = (
    _adaptive_average(1, (Sample("nn.AdaptiveAvgPool1d(3)", (2, 3, 8)),)),
    _adaptive_average(
        2,
        (
            Sample("nn.AdaptiveAvgPool2d(1)", (2, 3, 5, 4)),
            Sample("nn.AdaptiveAvgPool2d((3, 2))", (2, 3, 7, 4)),
            Sample("nn.AdaptiveAvgPool2d((None, 2))", (2, 3, 7, 4)),
        ),
    ),
    _adaptive_average(3, (Sample("nn.AdaptiveAvgPool3d((1, 1, 1))", (1, 2, 3, 4, 2)),)),
    _adaptive_max(1, (Sample("nn.AdaptiveMaxPool1d(3)", (2, 3, 8)),)),
    _adaptive_max(
        2,
        (
            Sample("nn.AdaptiveMaxPool2d((3, None))", (2, 3, 7, 4)),
            Sample("nn.AdaptiveMaxPool2d(3, return_indices=True)", (2, 3, 7, 4)),
        ),
    ),
    _adaptive_max(3, (Sample("nn.AdaptiveMaxPool3d((1, 3, 2))", (1, 2, 3, 4, 2)),)),
    _average_pool(1, (Sample("nn.AvgPool1d(2)", (2, 3, 8)), Sample("nn.AvgPool1d(3, 2, 1, True)", (2, 3, 8)))),
    _average_pool(
        2,
        (
            Sample("nn.AvgPool2d(2)", (2, 3, 8, 9)),
            Sample("nn.AvgPool2d(3, stride=2, padding=1)", (2, 3, 8, 9)),
            Sample("nn.AvgPool2d(3, 1, 1, count_include_pad=False)", (2, 3, 5, 5)),
            Sample("nn.AvgPool2d((3, 2), 2, 1, ceil_mode=True, count_include_pad=False)", (2, 3, 8, 9)),
            Sample("nn.AvgPool2d(2, divisor_override=3)", (2, 3, 5, 5)),
            Sample("nn.AvgPool2d([3, 2], stride=2, padding=[1, 0])", (2, 3, 8, 9)),
        ),
    ),
    _average_pool(
        3, (Sample("nn.AvgPool3d(2)", (1, 2, 4, 4, 6)), Sample("nn.AvgPool3d(2, ceil_mode=True)", _SHAPES[3]))
    ),
    _max_pool(1, (Sample("nn.MaxPool1d(2)", (2, 3, 8)), Sample("nn.MaxPool1d(3, 2, dilation=2)", (2, 3, 8)))),
    _max_pool(
        2,
        (
            Sample("nn.MaxPool2d(2)", (2, 3, 8, 9)),
            Sample("nn.MaxPool2d(kernel_size=3, stride=2, padding=1)", (2, 3, 8, 9)),
            Sample("nn.MaxPool2d((2, 3), (1, 2))", (2, 3, 8, 9)),
            Sample("nn.MaxPool2d(3, 2, (1, 0), ceil_mode=True)", (2, 3, 8, 6)),
            Sample("nn.MaxPool2d(2, 2, 1, ceil_mode=True, return_indices=True)", (2, 3, 7, 6)),
        ),
    ),
    _max_pool(3, (Sample("nn.MaxPool3d(2)", (1, 2, 4, 4, 6)), Sample("nn.MaxPool3d(2, ceil_mode=True)", _SHAPES[3]))),
    *map(_unpool, (1, 2, 3)),
    *map(_power, (1, 2, 3)),
)

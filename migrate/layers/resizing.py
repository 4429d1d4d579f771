"""Upsampling, and pixels for channels."""

from migrate.layers.layer import Layer, Layout, Sample

_NEAREST = "Nearest by default; torch's nearest rounds down, where that of jax.image goes by the centres."


def _upsampling(name: str, how: str, samples: tuple[Sample, ...]) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}",
        signature="size=None, scale_factor=None",
        template=f"partial(interpolate, size={{size?None}}, scale_factor={{scale_factor?None}}{how})",
        note="An older name of nn.Upsample.",
        layout=Layout.FIRST,
        snippets=("interpolate",),
        samples=samples,
    )


LAYERS = (
    Layer(
        torch="torch.nn.Upsample",
        signature="size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None",
        template="partial(interpolate, size={size?None}, scale_factor={scale_factor?None}, mode={mode?'nearest'}, "
        "align_corners={align_corners?None}, recompute_scale_factor={recompute_scale_factor?None})",
        note=_NEAREST,
        layout=Layout.FIRST,
        refuses={
            "mode": (
                ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"),
                "the mode must be written out",
            ),
        },
        snippets=("interpolate",),
        samples=(
            Sample("nn.Upsample(scale_factor=2)", (2, 3, 4, 5)),
            Sample("nn.Upsample(size=(5, 7), mode='bilinear', align_corners=True)", (2, 3, 4, 5)),
            Sample("nn.Upsample(scale_factor=1.5, mode='bilinear')", (2, 3, 4, 5)),
            Sample("nn.Upsample(scale_factor=1.3, mode='linear', recompute_scale_factor=True)", (2, 3, 5)),
            Sample("nn.Upsample((7, 3), mode='bicubic')", (2, 3, 4, 5)),
            Sample("nn.Upsample(scale_factor=(2, 1.5), mode='bicubic', align_corners=True)", (2, 3, 4, 5)),
            Sample("nn.Upsample(scale_factor=2.0, mode='trilinear')", (1, 2, 2, 3, 2)),
            Sample("nn.Upsample(7, mode='nearest-exact')", (2, 3, 5)),
        ),
    ),
    _upsampling("UpsamplingNearest2d", "", (Sample("nn.UpsamplingNearest2d(scale_factor=2)", (2, 3, 4, 5)),)),
    _upsampling(
        "UpsamplingBilinear2d",
        ', mode="bilinear", align_corners=True',
        (Sample("nn.UpsamplingBilinear2d((5, 9))", (2, 3, 4, 5)),),
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
    Layer(
        torch="torch.nn.PixelUnshuffle",
        signature="downscale_factor",
        template="partial(pixel_unshuffle, factor={downscale_factor})",
        note="Pixels become channels.",
        layout=Layout.FIRST,
        snippets=("pixel_unshuffle",),
        samples=(Sample("nn.PixelUnshuffle(2)", (2, 3, 4, 6)),),
    ),
    Layer(
        torch="torch.nn.ChannelShuffle",
        signature="groups",
        template="partial(channel_shuffle, groups={groups})",
        note="The groups take turns.",
        layout=Layout.FIRST,
        snippets=("channel_shuffle",),
        samples=(Sample("nn.ChannelShuffle(2)", (2, 6, 3, 4)),),
    ),
    Layer(
        torch="torch.nn.Unfold",
        signature="kernel_size, dilation=1, padding=0, stride=1",
        template="partial(unfold, kernel_size={kernel_size}, dilation={dilation?1}, padding={padding?0}, "
        "stride={stride?1})",
        note="One column for each window: channel by channel, row by row.",
        layout=Layout.FIRST,
        axes="rank - 1",
        snippets=("unfold",),
        samples=(
            Sample("nn.Unfold(2)", (2, 3, 4, 5)),
            Sample("nn.Unfold((2, 3), dilation=2, padding=(1, 2), stride=(2, 1))", (2, 3, 5, 6)),
        ),
    ),
    Layer(
        torch="torch.nn.Fold",
        signature="output_size, kernel_size, dilation=1, padding=0, stride=1",
        template="partial(fold, output_size={output_size}, kernel_size={kernel_size}, dilation={dilation?1}, "
        "padding={padding?0}, stride={stride?1})",
        note="Adds up columns where their windows overlap.",
        layout=Layout.FIRST,
        axes="rank + 1",
        snippets=("fold",),
        samples=(
            Sample("nn.Fold((4, 5), 2)", (2, 12, 12)),
            Sample("nn.Fold(5, (2, 3), dilation=2, padding=(1, 2), stride=(2, 1))", (2, 12, 15)),
        ),
    ),
)

"""Convolutions. Channel-last inside: native channel-first convolution is slower on every XLA backend measured."""

from migrate.layers.layer import Layer, Layout, Sample, Variant, Weight
from migrate.layers.moves import Permute


def _convolution(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    spatial = tuple(range(2, 2 + dimensions))
    return Layer(
        torch=f"torch.nn.Conv{dimensions}d",
        signature="in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, "
        "padding_mode='zeros', device=None, dtype=None",
        template=(
            f"nn.Conv({{out_channels}}, {{kernel_size:tuple{dimensions}}}, strides={{stride:tuple{dimensions}?1}}, "
            f"padding={{padding:padding{dimensions}}}, kernel_dilation={{dilation:tuple{dimensions}?1}}, "
            "feature_group_count={groups?1}, use_bias={bias?True})"
        ),
        variants=(
            Variant(
                "padding_mode != 'zeros'",
                f"PaddedConv({{out_channels}}, {{kernel_size:tuple{dimensions}}}, "
                f'strides={{stride:tuple{dimensions}?1}}, padding="VALID", '
                f"kernel_dilation={{dilation:tuple{dimensions}?1}}, feature_group_count={{groups?1}}, "
                f"use_bias={{bias?True}}, pad_width={{padding:pad_width{dimensions}}}, "
                "pad_mode={padding_mode:pad_mode?'reflect'})",
            ),
        ),
        defaults=f"torch_init(fan_in={{in_channels:fan_in_conv{dimensions}}})",
        snippets=("PaddedConv", "torch_init"),
        note="Flax pads SAME by default and keeps the kernel as (*spatial, in, out).",
        layout=Layout.LAST,
        rank=dimensions + 2,
        weights=(
            Weight(
                "weight",
                "kernel",
                (*["?"] * dimensions, "?", "out_channels"),
                (Permute((*spatial, 1, 0)),),
                initializer="kernel_init",
            ),
            Weight("bias", "bias", ("out_channels",), when="bias", initializer="bias_init"),
        ),
        refuses={"padding_mode": (("zeros", "reflect", "replicate", "circular"), "it must be written out")},
        samples=samples,
    )


def _transposed(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    spatial = tuple(range(2, 2 + dimensions))
    return Layer(
        torch=f"torch.nn.ConvTranspose{dimensions}d",
        signature="in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, "
        "dilation=1, padding_mode='zeros', device=None, dtype=None",
        template=(
            f"nn.ConvTranspose({{out_channels}}, {{kernel_size:tuple{dimensions}}}, "
            f"strides={{stride:tuple{dimensions}?1}}, padding={{padding:transpose_padding{dimensions}}}, "
            f"kernel_dilation={{dilation:tuple{dimensions}?1}}, use_bias={{bias?True}}, transpose_kernel=True)"
        ),
        variants=(
            Variant(
                "groups != 1",
                f"GroupedConvTranspose({{out_channels}}, {{kernel_size:tuple{dimensions}}}, "
                f"{{stride:tuple{dimensions}}}, {{padding:transpose_pairs{dimensions}}}, "
                f"{{dilation:tuple{dimensions}}}, {{groups}}, use_bias={{bias?True}})",
            ),
        ),
        defaults=f"torch_init(fan_in={{out_channels:fan_in_transposed{dimensions}}})",
        snippets=("GroupedConvTranspose", "torch_init"),
        note="torch's padding takes away from the output; Flax's pads the input of the equivalent convolution.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        weights=(
            Weight(
                "weight",
                "kernel",
                (*["?"] * dimensions, "out_channels // groups", "in_channels"),
                (Permute((*spatial, 1, 0)),),
                initializer="kernel_init",
            ),
            Weight("bias", "bias", ("out_channels",), when="bias", initializer="bias_init"),
        ),
        refuses={
            "padding_mode": (("zeros",), "torch has no other"),
        },
        samples=samples,
    )


LAYERS = (
    _convolution(
        1,
        (
            Sample("nn.Conv1d(4, 6, 3)", (2, 4, 9)),
            Sample("nn.Conv1d(4, 6, kernel_size=4, stride=2, padding=1, groups=2, bias=False)", (2, 4, 9)),
            Sample("nn.Conv1d(4, 6, 4, dilation=2, padding='same', padding_mode='replicate')", (2, 4, 9)),
        ),
    ),
    _convolution(
        2,
        (
            Sample("nn.Conv2d(3, 8, 3)", (2, 3, 8, 7)),
            Sample("nn.Conv2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=1)", (2, 4, 8, 7)),
            Sample("nn.Conv2d(4, 8, 3, 1, 2, 2, groups=4)", (2, 4, 8, 8)),
            Sample("nn.Conv2d(4, 4, 3, padding='same', bias=False)", (1, 4, 5, 5)),
            Sample("nn.Conv2d(2, 4, 3, padding=1, padding_mode='reflect')", (1, 2, 5, 6)),
            Sample("nn.Conv2d(2, 4, (3, 2), 2, (1, 2), groups=2, padding_mode='circular')", (1, 2, 5, 6)),
        ),
    ),
    _convolution(
        3,
        (Sample("nn.Conv3d(2, 4, 2, padding=1)", (1, 2, 4, 5, 3)),),
    ),
    _transposed(
        1,
        (
            Sample("nn.ConvTranspose1d(4, 6, 3)", (2, 4, 5)),
            Sample("nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1, bias=False)", (2, 4, 5)),
            Sample("nn.ConvTranspose1d(4, 4, 3, groups=4, dilation=2, bias=False)", (2, 4, 5)),
        ),
    ),
    _transposed(
        2,
        (
            Sample("nn.ConvTranspose2d(4, 6, 2, stride=2)", (2, 4, 3, 5)),
            Sample("nn.ConvTranspose2d(4, 6, (3, 4), 2, (2, 1), (1, 0), dilation=(2, 1))", (2, 4, 5, 4)),
            Sample("nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2)", (2, 4, 5, 4)),
        ),
    ),
    _transposed(3, (Sample("nn.ConvTranspose3d(2, 3, 2, 2, 1)", (1, 2, 3, 4, 3)),)),
)

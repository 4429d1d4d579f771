"""torch.nn.functional: sampling, resizing and taking images apart. Channels are on axis 1."""

from migrate.rules.rule import Call, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule(
    "torch.nn.functional.grid_sample",
    signature="input, grid, mode='bilinear', padding_mode='zeros', align_corners=None", dtype="float",
)  # fmt: skip
def grid_sample(call: Call) -> Expr:
    """Points in [-1, 1], x before y; images only, not volumes.

    >>> F.grid_sample(x, y, align_corners=False)  # x: f32[2, 3, 5, 4]; y: f32[2, 6, 3, 2]
    grid_sample(x, y)
    >>> F.grid_sample(x, y, padding_mode="border", align_corners=True)  # x: f32[2, 3, 5, 4]; y: f32[2, 6, 3, 2]
    grid_sample(x, y, padding_mode="border", align_corners=True)
    >>> F.grid_sample(x, y, mode="nearest")  # x: f32[2, 3, 5, 4]; y: unit[2, 6, 3, 2]
    grid_sample(x, y, mode="nearest")
    """
    call.only("mode", "bilinear", "nearest")
    call.only("padding_mode", "zeros", "border")
    call.only("align_corners", None, True, False)
    call.snippet("grid_sample")
    more = call.given("mode", "padding_mode")
    if nodes.is_literal(call.node("align_corners"), True):
        more["align_corners"] = nodes.expression("True")
    return nodes.call("grid_sample", call.node("input"), call.node("grid"), **more)


@rule("torch.nn.functional.affine_grid", signature="theta, size, align_corners=None", dtype="float")
def affine_grid(call: Call) -> Expr:
    """Points for grid_sample; images only, not volumes.

    >>> F.affine_grid(x, (2, 3, 4, 5), align_corners=False)  # x: f32[2, 2, 3]
    affine_grid(x, (2, 3, 4, 5))
    """
    call.only("align_corners", None, True, False)
    call.snippet("affine_grid")
    more = {"align_corners": nodes.expression("True")} if nodes.is_literal(call.node("align_corners"), True) else {}
    return nodes.call("affine_grid", call.node("theta"), call.node("size"), **more)


@rule("torch.nn.functional.unfold", signature="input, kernel_size, dilation=1, padding=0, stride=1", dtype="float")
def unfold(call: Call) -> Expr:
    """Windows as columns: (batch, channels * window, places).

    >>> F.unfold(x, 3, padding=1)  # x: f32[2, 3, 5, 4]
    unfold(x, 3, padding=1)
    >>> F.unfold(x, (2, 3), stride=(2, 1), dilation=2)  # x: f32[2, 3, 7, 8]
    unfold(x, (2, 3), dilation=2, stride=(2, 1))
    """
    call.snippet("unfold")
    more = call.given("dilation", "padding", "stride")
    return nodes.call("unfold", call.node("input"), call.node("kernel_size"), **more)


@rule(
    "torch.nn.functional.fold", signature="input, output_size, kernel_size, dilation=1, padding=0, stride=1",
    dtype="float",
)  # fmt: skip
def fold(call: Call) -> Expr:
    """Adds columns up where their windows lie.

    >>> F.fold(x, (5, 4), 3, padding=1)  # x: f32[2, 18, 20]
    fold(x, (5, 4), 3, padding=1)
    """
    call.snippet("fold")
    more = call.given("dilation", "padding", "stride")
    return nodes.call("fold", call.node("input"), call.node("output_size"), call.node("kernel_size"), **more)


@rule(
    "torch.nn.functional.interpolate",
    "torch.nn.functional.upsample",
    signature="input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, "
    "antialias=False",
    dtype="float",
)
def interpolate(call: Call) -> Expr:
    """Nearest by default; torch's nearest rounds down, where that of jax.image goes by the centres.

    >>> F.interpolate(x, scale_factor=2)  # x: f32[2, 3, 4, 5]
    interpolate(x, scale_factor=2)
    >>> F.interpolate(x, size=(7, 3))  # x: f32[2, 3, 4, 5]
    interpolate(x, size=(7, 3))
    >>> F.interpolate(x, size=7, mode="linear")  # x: f32[2, 3, 4]
    interpolate(x, size=7, mode="linear")
    >>> F.interpolate(x, scale_factor=(1.5, 2.3), mode="bilinear")  # x: f32[2, 3, 5, 4]
    interpolate(x, scale_factor=(1.5, 2.3), mode="bilinear")
    >>> F.interpolate(x, size=(3, 9), mode="bilinear", align_corners=True)  # x: f32[2, 3, 5, 4]
    interpolate(x, size=(3, 9), mode="bilinear", align_corners=True)
    >>> F.interpolate(x, size=(7, 3), mode="nearest-exact")  # x: f32[2, 3, 4, 5]
    interpolate(x, size=(7, 3), mode="nearest-exact")
    >>> F.interpolate(x, scale_factor=1.3, mode="linear", recompute_scale_factor=True)  # x: f32[2, 3, 5]
    interpolate(x, scale_factor=1.3, mode="linear", recompute_scale_factor=True)
    >>> F.interpolate(x, size=(7, 3), mode="bicubic")  # x: f32[2, 3, 4, 5]
    interpolate(x, size=(7, 3), mode="bicubic")
    """
    call.only("antialias", False)
    call.only("mode", "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic")
    call.snippet("interpolate")
    more = call.given("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")
    return nodes.call("interpolate", call.node("input"), **more)


@rule("torch.nn.functional.pixel_shuffle", signature="input, upscale_factor", dtype="float")
def pixel_shuffle(call: Call) -> Expr:
    """Channels become pixels.

    >>> F.pixel_shuffle(x, 2)  # x: f32[2, 8, 3, 4]
    pixel_shuffle(x, 2)
    """
    call.snippet("pixel_shuffle")
    return call.make("pixel_shuffle({input}, {upscale_factor})")


@rule("torch.nn.functional.pixel_unshuffle", "torch.pixel_unshuffle", signature="input, downscale_factor")
def pixel_unshuffle(call: Call) -> Expr:
    """Pixels become channels.

    >>> F.pixel_unshuffle(x, 2)  # x: f32[2, 3, 4, 6]
    pixel_unshuffle(x, 2)
    """
    call.snippet("pixel_unshuffle")
    return call.make("pixel_unshuffle({input}, {downscale_factor})")


@rule("torch.nn.functional.channel_shuffle", "torch.channel_shuffle", signature="input, groups")
def channel_shuffle(call: Call) -> Expr:
    """Interleaves the groups of channels.

    >>> F.channel_shuffle(x, 2)  # x: f32[2, 6, 3]
    channel_shuffle(x, 2)
    """
    call.snippet("channel_shuffle")
    return call.make("channel_shuffle({input}, {groups})")


def _transposed(call: Call, dimensions: int) -> Expr:
    call.snippet("conv_transpose")
    more = call.given("stride", "padding", "output_padding", "groups", "dilation")
    made = nodes.call("conv_transpose", call.node("input"), call.node("weight"), **more)
    if not call.has("bias"):
        return made
    return nodes.expression("{y} + {b}.reshape(-1" + ", 1" * dimensions + ")", y=made, b=call.node("bias"))


_TRANSPOSED = "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1"


@rule("torch.nn.functional.conv_transpose1d", "torch.conv_transpose1d", signature=_TRANSPOSED, dtype="float")
def conv_transpose1d(call: Call) -> Expr:
    """The weight is (in, out / groups, window).

    >>> F.conv_transpose1d(x, y, stride=2)  # x: f32[2, 4, 5]; y: f32[4, 3, 3]
    conv_transpose(x, y, stride=2)
    """
    return _transposed(call, 1)


@rule("torch.nn.functional.conv_transpose2d", "torch.conv_transpose2d", signature=_TRANSPOSED, dtype="float")
def conv_transpose2d(call: Call) -> Expr:
    """The weight is (in, out / groups, *window).

    >>> F.conv_transpose2d(x, y, z, 2, 1, 1, groups=2)  # x: f32[2, 4, 5, 4]; y: f32[4, 3, 3, 2]; z: f32[6]
    conv_transpose(x, y, stride=2, padding=1, output_padding=1, groups=2) + z.reshape(-1, 1, 1)
    """
    return _transposed(call, 2)


@rule("torch.nn.functional.conv_transpose3d", "torch.conv_transpose3d", signature=_TRANSPOSED, dtype="float")
def conv_transpose3d(call: Call) -> Expr:
    """The weight is (in, out / groups, *window).

    >>> F.conv_transpose3d(x, y, padding=1, dilation=2)  # x: f32[2, 2, 3, 4, 5]; y: f32[2, 3, 2, 2, 2]
    conv_transpose(x, y, padding=1, dilation=2)
    """
    return _transposed(call, 3)

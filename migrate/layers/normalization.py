"""Normalisation layers. torch's epsilon is 1e-5 throughout, Flax's 1e-6 (1e-5 for batches)."""

from migrate.layers.layer import Layer, Layout, Sample, Weight


def _batch_norm(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    # BatchNorm1d takes (batch, channels) as well as (batch, channels, length), so its channels stay on axis 1.
    axis = ", axis=1" if dimensions == 1 else ""
    return Layer(
        torch=f"torch.nn.BatchNorm{dimensions}d",
        signature="num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, "
        "dtype=None",
        template=(
            "BatchNorm(use_running_average=not self.training, momentum={momentum?0.1}, epsilon={eps?1e-5}, "
            f"affine={{affine?True}}{axis})"
        ),
        note="torch keeps the unbiased variance in its running statistics, Flax the biased one; and 1 minus momentum.",
        layout=Layout.FIRST if dimensions == 1 else Layout.LAST,
        rank=dimensions + 2,
        trains=True,
        weights=(
            Weight("weight", "scale", ("num_features",), when="affine", initializer="scale_init"),
            Weight("bias", "bias", ("num_features",), when="affine", initializer="bias_init"),
            Weight("running_mean", "mean", ("num_features",), collection="batch_stats"),
            Weight("running_var", "var", ("num_features",), collection="batch_stats"),
        ),
        unused=(("num_batches_tracked", "Flax counts no batches"),),
        refuses={
            "momentum": ((0.1, ...), "momentum=None (a cumulative average) is not supported"),
            "track_running_stats": ((True,), "batch statistics in eval mode have no Flax form"),
        },
        snippets=("BatchNorm",),
        samples=samples,
    )


def _instance_norm(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    return Layer(
        torch=f"torch.nn.InstanceNorm{dimensions}d",
        signature="num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, "
        "dtype=None",
        template="nn.InstanceNorm(epsilon={eps}, use_bias={affine?True}, use_scale={affine?True})",
        note="Has no weights by default in torch, and does in Flax.",
        layout=Layout.LAST,
        rank=dimensions + 2,
        weights=(
            Weight("weight", "scale", ("num_features",), when="affine", initializer="scale_init"),
            Weight("bias", "bias", ("num_features",), when="affine", initializer="bias_init"),
        ),
        refuses={"track_running_stats": ((False,), "nn.InstanceNorm keeps no statistics")},
        samples=samples,
    )


_SHAPE = ("normalized_shape",)
_SCALE = Weight("weight", "scale", _SHAPE, when="elementwise_affine", initializer="scale_init")
_BIAS = Weight("bias", "bias", _SHAPE, when="bias and elementwise_affine", initializer="bias_init")

LAYERS = (
    _batch_norm(1, (Sample("nn.BatchNorm1d(6)", (5, 6, 3)), Sample("nn.BatchNorm1d(6, affine=False)", (5, 6)))),
    _batch_norm(
        2,
        (
            Sample("nn.BatchNorm2d(4)", (3, 4, 5, 6)),
            Sample("nn.BatchNorm2d(4, eps=1e-3, momentum=0.01, affine=False)", (3, 4, 5, 6)),
        ),
    ),
    _batch_norm(3, (Sample("nn.BatchNorm3d(2)", (3, 2, 3, 4, 2)),)),
    Layer(
        torch="torch.nn.LayerNorm",
        signature="normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None",
        template=(
            "nn.LayerNorm(epsilon={eps}, use_bias={bias:and_elementwise_affine?True}, "
            "use_scale={elementwise_affine?True}, reduction_axes={normalized_shape:trailing_axes?-1}, "
            "feature_axes={normalized_shape:trailing_axes?-1})"
        ),
        note="Flax's epsilon is 1e-6 where torch's is 1e-5.",
        layout=Layout.FIRST,
        weights=(
            _SCALE,
            _BIAS,
        ),
        samples=(
            Sample("nn.LayerNorm(6)", (2, 3, 6)),
            Sample("nn.LayerNorm([3, 6], eps=1e-3)", (2, 3, 6)),
            Sample("nn.LayerNorm(6, elementwise_affine=False)", (2, 6)),
            Sample("nn.LayerNorm(6, bias=False)", (2, 6)),
        ),
    ),
    Layer(
        torch="torch.nn.GroupNorm",
        signature="num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None",
        template="nn.GroupNorm({num_groups}, epsilon={eps}, use_bias={affine?True}, use_scale={affine?True})",
        note="The channel axis is the second in torch and the last in Flax.",
        layout=Layout.LAST,
        weights=(
            Weight("weight", "scale", ("num_channels",), when="affine", initializer="scale_init"),
            Weight("bias", "bias", ("num_channels",), when="affine", initializer="bias_init"),
        ),
        samples=(
            Sample("nn.GroupNorm(2, 6)", (2, 6, 3, 4)),
            Sample("nn.GroupNorm(3, 6, eps=1e-3, affine=False)", (2, 6, 3, 4)),
        ),
    ),
    _instance_norm(1, (Sample("nn.InstanceNorm1d(3)", (2, 3, 7)),)),
    _instance_norm(
        2,
        (
            Sample("nn.InstanceNorm2d(3)", (2, 3, 4, 5)),
            Sample("nn.InstanceNorm2d(3, eps=1e-3, affine=True)", (2, 3, 4, 5)),
        ),
    ),
    _instance_norm(3, (Sample("nn.InstanceNorm3d(2)", (2, 2, 3, 2, 4)),)),
    Layer(
        torch="torch.nn.RMSNorm",
        signature="normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None",
        template=(
            "nn.RMSNorm(epsilon={eps:epsilon}, use_scale={elementwise_affine?True}, "
            "reduction_axes={normalized_shape:trailing_axes?-1}, feature_axes={normalized_shape:trailing_axes?-1})"
        ),
        note="torch's default epsilon is that of the input's type, taken here to be float32.",
        layout=Layout.FIRST,
        weights=(_SCALE,),
        samples=(
            Sample("nn.RMSNorm(6)", (2, 3, 6)),
            Sample("nn.RMSNorm([3, 6], eps=1e-3)", (2, 3, 6)),
            Sample("nn.RMSNorm(6, eps=1e-6, elementwise_affine=False)", (2, 6)),
        ),
    ),
)

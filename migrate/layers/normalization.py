"""Normalisation layers. torch's epsilon is 1e-5 throughout, Flax's 1e-6 (1e-5 for batches).

Flax takes the variance as mean(x²) - mean(x)² unless told otherwise, which loses digits by the square of the mean over
the spread. Over positions and batches that is often 3 or more; over features, as in LayerNorm, it is near 0.
"""

from migrate.layers.layer import Layer, Layout, Sample, Variant, Weight


def _statistics(when: str) -> tuple[Weight, ...]:
    return (
        Weight("weight", "scale", ("num_features",), when="affine", initializer="scale_init"),
        Weight("bias", "bias", ("num_features",), when="affine", initializer="bias_init"),
        Weight("running_mean", "mean", ("num_features",), collection="batch_stats", when=when),
        Weight("running_var", "var", ("num_features",), collection="batch_stats", when=when),
    )


_COUNT = Weight("num_batches_tracked", "count", (), (), "batch_stats", "track_running_stats and momentum is None")
_TWO_PASSES = "Flax's fast variance loses digits where the mean is larger than the spread."
_COUNTED = (("num_batches_tracked", "only a cumulative average needs it"),)


def _batch_norm(name: str, dimensions: int, samples: tuple[Sample, ...], note: str = "", more: str = "") -> Layer:
    # These take (batch, channels) as well as (batch, channels, length), so their channels stay on axis 1.
    first = dimensions < 2
    axis = ", axis=1" if first else ""
    return Layer(
        torch=f"torch.nn.{name}",
        signature=f"num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True{more}, device=None, "
        "dtype=None, bias=True",
        template=(
            "BatchNorm(use_running_average=not self.training, momentum={momentum?0.1}, epsilon={eps?1e-5}, "
            f"affine={{affine?True}}{axis})"
        ),
        variants=(
            Variant(
                "not track_running_stats",
                f"BatchNormWithoutStatistics(epsilon={{eps?1e-5}}, affine={{affine?True}}{axis})",
            ),
            Variant(
                "momentum is None",
                "CumulativeBatchNorm(use_running_average=not self.training, epsilon={eps?1e-5}, "
                f"affine={{affine?True}}{axis})",
            ),
        ),
        note=f"{note}torch keeps the unbiased variance in its running statistics, Flax the biased one; and 1 minus "
        "momentum.",
        layout=Layout.FIRST if first else Layout.LAST,
        axis="axis",
        rank=dimensions + 2,
        trains=True,
        trains_if="track_running_stats",
        weights=(*_statistics("track_running_stats"), _COUNT),
        unused=_COUNTED,
        refuses={
            "track_running_stats": ((True, False), "whether it keeps statistics must be written out"),
            "bias": ((True,), "a scale without a bias is not supported"),
        },
        snippets=("BatchNorm", "BatchNormWithoutStatistics", "CumulativeBatchNorm"),
        samples=samples,
    )


def _instance_norm(dimensions: int, samples: tuple[Sample, ...]) -> Layer:
    return Layer(
        torch=f"torch.nn.InstanceNorm{dimensions}d",
        signature="num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, "
        "dtype=None, bias=True",
        template=(
            "nn.InstanceNorm(epsilon={eps}, use_bias={affine?True}, use_scale={affine?True}, use_fast_variance=False)"
        ),
        variants=(
            Variant(
                "track_running_stats",
                "InstanceNorm(use_running_average=not self.training, momentum={momentum?0.1}, epsilon={eps?1e-5}, "
                "affine={affine?False})",
            ),
        ),
        note="Has no weights by default in torch, and does in Flax. torch averages the unbiased variances; with "
        f"momentum=None its running statistics stay as they are. {_TWO_PASSES}",
        layout=Layout.LAST,
        rank=dimensions + 2,
        trains=True,
        trains_if="track_running_stats",
        weights=_statistics("track_running_stats"),
        unused=(("num_batches_tracked", "torch never counts here"),),
        refuses={
            "track_running_stats": ((False, True), "whether it keeps statistics must be written out"),
            "bias": ((True,), "a scale without a bias is not supported"),
        },
        snippets=("InstanceNorm",),
        samples=samples,
    )


_SHAPE = ("normalized_shape",)
_SCALE = Weight("weight", "scale", _SHAPE, when="elementwise_affine", initializer="scale_init")
_BIAS = Weight("bias", "bias", _SHAPE, when="bias and elementwise_affine", initializer="bias_init")

LAYERS = (
    _batch_norm(
        "BatchNorm1d",
        1,
        (
            Sample("nn.BatchNorm1d(6)", (5, 6, 3)),
            Sample("nn.BatchNorm1d(6, affine=False)", (5, 6)),
            Sample("nn.BatchNorm1d(6, momentum=None)", (5, 6)),
            Sample("nn.BatchNorm1d(6, track_running_stats=False)", (5, 6)),
        ),
    ),
    _batch_norm(
        "SyncBatchNorm",
        1,
        (Sample("nn.SyncBatchNorm(3)", (5, 3, 2, 4)),),
        "The batch of a jitted step is the whole one, over however many devices. ",
        ", process_group=None",
    ),
    _batch_norm(
        "BatchNorm2d",
        2,
        (
            Sample("nn.BatchNorm2d(4)", (3, 4, 5, 6)),
            Sample("nn.BatchNorm2d(4, eps=1e-3, momentum=0.01, affine=False)", (3, 4, 5, 6)),
        ),
    ),
    _batch_norm("BatchNorm3d", 3, (Sample("nn.BatchNorm3d(2)", (3, 2, 3, 4, 2)),)),
    Layer(
        torch="torch.nn.LayerNorm",
        signature="normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None",
        template=(
            "nn.LayerNorm(epsilon={eps}, use_bias={bias:and_affine?True}, "
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
        signature="num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, bias=True",
        template=(
            "nn.GroupNorm({num_groups}, epsilon={eps}, use_bias={bias:and_affine?True}, use_scale={affine?True}, "
            "use_fast_variance=False)"
        ),
        note=f"The channel axis is the second in torch and the last in Flax. {_TWO_PASSES}",
        layout=Layout.LAST,
        weights=(
            Weight("weight", "scale", ("num_channels",), when="affine", initializer="scale_init"),
            Weight("bias", "bias", ("num_channels",), when="bias and affine", initializer="bias_init"),
        ),
        samples=(
            Sample("nn.GroupNorm(2, 6)", (2, 6, 3, 4)),
            Sample("nn.GroupNorm(3, 6, eps=1e-3, affine=False)", (2, 6, 3, 4)),
            Sample("nn.GroupNorm(3, 6, bias=False)", (2, 6, 3, 4)),
        ),
    ),
    _instance_norm(1, (Sample("nn.InstanceNorm1d(3)", (2, 3, 7)),)),
    _instance_norm(
        2,
        (
            Sample("nn.InstanceNorm2d(3)", (2, 3, 4, 5)),
            Sample("nn.InstanceNorm2d(3, eps=1e-3, affine=True)", (2, 3, 4, 5)),
            Sample("nn.InstanceNorm2d(3, momentum=0.3, affine=True, track_running_stats=True)", (2, 3, 4, 5)),
            Sample("nn.InstanceNorm2d(3, momentum=None, track_running_stats=True)", (2, 3, 4, 5)),
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
    Layer(
        torch="torch.nn.LocalResponseNorm",
        signature="size, alpha=1e-4, beta=0.75, k=1.0",
        template="partial(local_response_norm, size={size}, alpha={alpha?1e-4}, beta={beta?0.75}, k={k?1.0})",
        note="Over neighbouring channels; alpha is divided by their number.",
        layout=Layout.FIRST,
        snippets=("local_response_norm",),
        samples=(
            Sample("nn.LocalResponseNorm(2)", (2, 5, 3, 4)),
            Sample("nn.LocalResponseNorm(3, alpha=0.1, beta=0.5, k=2.0)", (2, 5, 3, 4)),
        ),
    ),
)

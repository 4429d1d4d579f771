"""Activations: plain functions in Flax. Their own functional rules are in `migrate.rules.activation`."""

from migrate.layers.layer import Layer, Layout, Sample, Weight


def _activation(
    name: str,
    template: str,
    note: str = "Elementwise.",
    signature: str = "inplace=False",
    samples: tuple[str, ...] = ("",),
    layout: Layout = Layout.ANY,
    refuses: dict[str, tuple[tuple[object, ...], str]] | None = None,
) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}",
        signature=signature,
        template=template,
        note=note,
        layout=layout,
        refuses=refuses or {},
        samples=tuple(Sample(f"nn.{name}({arguments})", (2, 3, 5)) for arguments in samples),
    )


LAYERS = (
    _activation("ReLU", "nn.relu", "The gradient at 0 is 0 in both."),
    _activation("ReLU6", "nn.relu6"),
    _activation("SiLU", "nn.silu"),
    _activation("SELU", "nn.selu"),
    _activation("Mish", "jax.nn.mish"),
    _activation("Tanhshrink", "(lambda x: x - jnp.tanh(x))", signature=""),
    _activation("Tanh", "nn.tanh", signature=""),
    _activation("Sigmoid", "nn.sigmoid", signature=""),
    _activation("LogSigmoid", "nn.log_sigmoid", signature=""),
    _activation(
        "Softplus",
        "nn.softplus",
        signature="beta=1.0, threshold=20.0",
        refuses={
            "beta": ((1, 1.0), "jax.nn.softplus has no beta"),
        },
    ),
    _activation("Softsign", "nn.soft_sign", signature=""),
    _activation(
        "Hardtanh",
        "nn.hard_tanh",
        signature="min_val=-1.0, max_val=1.0, inplace=False",
        refuses={
            "min_val": ((-1, -1.0), "jax.nn.hard_tanh clips to -1"),
            "max_val": ((1, 1.0), "jax.nn.hard_tanh clips to 1"),
        },
    ),
    _activation("Hardsigmoid", "nn.hard_sigmoid"),
    _activation("Hardswish", "nn.hard_swish"),
    _activation(
        "GELU",
        "partial(nn.gelu, approximate={approximate:gelu_tanh?True})",
        "torch's default is the exact form, Flax's the tanh approximation.",
        signature="approximate='none'",
        samples=("", "approximate='tanh'"),
    ),
    _activation(
        "ELU",
        "partial(nn.elu, alpha={alpha?1.0})",
        signature="alpha=1.0, inplace=False",
        samples=("", "alpha=0.5"),
    ),
    _activation(
        "CELU",
        "partial(nn.celu, alpha={alpha?1.0})",
        signature="alpha=1.0, inplace=False",
        samples=("", "alpha=0.5"),
    ),
    _activation(
        "LeakyReLU",
        "partial(nn.leaky_relu, negative_slope={negative_slope?0.01})",
        "The gradient at exactly 0 is the slope in torch and 1 in JAX.",
        signature="negative_slope=0.01, inplace=False",
        samples=("", "0.2", "0.2, inplace=True"),
    ),
    _activation(
        "Softmax",
        "partial(nn.softmax, axis={dim})",
        "Without `dim` torch picks an axis by rank, which is deprecated.",
        signature="dim=None",
        samples=("dim=1", "-1"),
        layout=Layout.FIRST,
    ),
    _activation(
        "LogSoftmax",
        "partial(nn.log_softmax, axis={dim})",
        "Without `dim` torch picks an axis by rank, which is deprecated.",
        signature="dim=None",
        samples=("dim=1",),
        layout=Layout.FIRST,
    ),
    _activation("Identity", "(lambda x: x)", "Takes and ignores any arguments.", signature="*args, **kwargs"),
    Layer(
        torch="torch.nn.Softmax2d",
        signature="",
        template="partial(nn.softmax, axis=1)",
        note="Over the channels.",
        layout=Layout.FIRST,
        samples=(Sample("nn.Softmax2d()", (2, 3, 4, 5)),),
    ),
    Layer(
        torch="torch.nn.GLU",
        signature="dim=-1",
        template="partial(nn.glu, axis={dim?-1})",
        note="The first half times the sigmoid of the second.",
        layout=Layout.FIRST,
        samples=(Sample("nn.GLU()", (2, 3, 6)), Sample("nn.GLU(dim=1)", (2, 4, 3))),
    ),
    Layer(
        torch="torch.nn.PReLU",
        signature="num_parameters=1, init=0.25, device=None, dtype=None",
        template="PReLU({init?0.25})",
        note="The slope is learnt; Flax's own has a scalar where torch has a vector of one.",
        layout=Layout.ANY,
        weights=(Weight("weight", "negative_slope", ("num_parameters",)),),
        refuses={"num_parameters": ((1,), "one slope for each channel is not supported")},
        snippets=("PReLU",),
        samples=(Sample("nn.PReLU()", (2, 3, 4)), Sample("nn.PReLU(init=0.1)", (5,))),
    ),
)

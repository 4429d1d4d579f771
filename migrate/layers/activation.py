"""Activations: plain functions in Flax. Their own functional rules are in `migrate.rules.activation`."""

from migrate.layers.layer import Layer, Layout, Sample, Variant, Weight


def _activation(
    name: str,
    template: str,
    note: str = "Elementwise.",
    signature: str = "inplace=False",
    samples: tuple[str, ...] = ("",),
    layout: Layout = Layout.ANY,
    variants: tuple[Variant, ...] = (),
    snippets: tuple[str, ...] = (),
) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}",
        signature=signature,
        template=template,
        note=note,
        layout=layout,
        variants=variants,
        snippets=snippets,
        samples=tuple(Sample(f"nn.{name}({arguments})", (2, 3, 5)) for arguments in samples),
    )


def _softmax(name: str, function: str, argument: str) -> Layer:
    plain = argument == "x"
    return _activation(
        name,
        f"partial({function}, axis={{dim}})" if plain else f"(lambda x: {function}({argument}, axis={{dim}}))",
        "Without `dim` torch goes by the number of axes: it takes the first of 0, 1 or 3, else the second.",
        signature="dim=None",
        samples=("dim=1", "-1", ""),
        layout=Layout.FIRST,
        variants=(Variant("dim is None", f"(lambda x: {function}({argument}, axis=0 if x.ndim in (0, 1, 3) else 1))"),),
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
        "Above the threshold it is linear, which makes no difference to float32 with the defaults.",
        signature="beta=1.0, threshold=20.0",
        samples=("", "beta=2.0", "0.5, threshold=1.0"),
        variants=(
            Variant(
                "(beta, threshold) != (1.0, 20.0)",
                "partial(softplus, beta={beta?1.0}, threshold={threshold?20.0})",
            ),
        ),
        snippets=("softplus",),
    ),
    _activation("Softsign", "nn.soft_sign", signature=""),
    _activation(
        "Hardtanh",
        "hard_tanh",
        signature="min_val=-1.0, max_val=1.0, inplace=False",
        samples=("", "-2.0, 0.5", "max_val=3"),
        variants=(Variant("(min_val, max_val) != (-1.0, 1.0)", "partial(hard_tanh, min={min_val}, max={max_val})"),),
        snippets=("hard_tanh",),
    ),
    _activation(
        "Threshold",
        "(lambda x: jnp.where(x <= {threshold}, {value}, x))",
        "Keeps what is above the threshold.",
        signature="threshold, value, inplace=False",
        samples=("0.1, 20", "-0.5, 0.25"),
    ),
    _activation(
        "Hardshrink",
        "(lambda x: jnp.where(jnp.abs(x) <= {lambd}, 0, x))",
        signature="lambd=0.5",
        samples=("", "0.8"),
    ),
    _activation(
        "Softshrink",
        "(lambda x: jnp.sign(x) * jnp.maximum(jnp.abs(x) - {lambd}, 0))",
        signature="lambd=0.5",
        samples=("", "0.8"),
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
    _softmax("Softmax", "nn.softmax", "x"),
    _softmax("LogSoftmax", "nn.log_softmax", "x"),
    _softmax("Softmin", "nn.softmax", "-x"),
    Layer(
        torch="torch.nn.RReLU",
        signature="lower=1.0 / 8, upper=1.0 / 3, inplace=False",
        template="RReLU({lower}, {upper}, training=self.training)",
        note="Draws its slopes in train mode; their mean otherwise.",
        trains=True,
        draws=True,
        snippets=("RReLU",),
        samples=(Sample("nn.RReLU()", (2, 3, 5)), Sample("nn.RReLU(0.2, 0.2)", (2, 3, 5))),
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
        note="The slope is learnt; Flax's own has a scalar where torch has a vector.",
        layout=Layout.ANY,
        weights=(Weight("weight", "negative_slope", ("num_parameters",)),),
        variants=(Variant("num_parameters != 1", "PReLU({init?0.25}, {num_parameters})", Layout.FIRST),),
        snippets=("PReLU",),
        samples=(
            Sample("nn.PReLU()", (2, 3, 4)),
            Sample("nn.PReLU(init=0.1)", (5,)),
            Sample("nn.PReLU(3)", (2, 3, 4)),
            Sample("nn.PReLU(3, 0.1)", (2, 3)),
        ),
    ),
)

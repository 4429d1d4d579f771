"""Activations as functions."""

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Number, Tensor
from migrate.rules.rule import Call, Rule, Value, as_float, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

# torch name: (target, parameters, further names)
_ACTIVATIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "relu": ("nn.relu", "input, inplace=False", ("torch.relu", "Tensor.relu")),
    "silu": ("nn.silu", "input, inplace=False", ()),
    "selu": ("nn.selu", "input, inplace=False", ("torch.selu",)),
    "mish": ("jax.nn.mish", "input, inplace=False", ()),
    "tanh": ("nn.tanh", "input", ()),
    "sigmoid": ("nn.sigmoid", "input", ()),
    "logsigmoid": ("nn.log_sigmoid", "input", ()),
    "softsign": ("nn.soft_sign", "input", ()),
    "hardswish": ("nn.hard_swish", "input, inplace=False", ()),
    "hardsigmoid": ("nn.hard_sigmoid", "input, inplace=False", ()),
}


def _activation(name: str, target: str, parameters: str, more: tuple[str, ...]) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{target}({{x}})", x=as_float(call, "input") if name == "sigmoid" else call.node("input"))

    names = (f"torch.nn.functional.{name}", *more)
    doc = f"Elementwise.\n\n    >>> F.{name}(x)  # x: f32[2, 3]\n    {target}(x)\n"
    return Rule(names, signature(parameters), function, True, "float", doc, "activation")


for _name, _described in _ACTIVATIONS.items():
    register(_activation(_name, *_described))


@rule("torch.nn.functional.gelu", signature="input, approximate='none'", elementwise=True, dtype="float")
def gelu(call: Call) -> Expr:
    """torch's default is the exact form, Flax's the tanh approximation.

    >>> F.gelu(x)  # x: f32[2, 3]
    nn.gelu(x, approximate=False)
    >>> F.gelu(x, approximate="tanh")  # x: f32[2, 3]
    nn.gelu(x)
    """
    return call.make(
        "nn.gelu({input})" if call.literal("approximate") == "tanh" else "nn.gelu({input}, approximate=False)"
    )


@rule(
    "torch.nn.functional.leaky_relu",
    signature="input, negative_slope=0.01, inplace=False",
    elementwise=True,
    dtype="float",
)
def leaky_relu(call: Call) -> Expr:
    """The gradient at exactly 0 is the slope in torch and 1 in JAX.

    >>> F.leaky_relu(x, 0.2)  # x: f32[2, 3]
    nn.leaky_relu(x, 0.2)
    """
    return call.make(
        "nn.leaky_relu({input}, {negative_slope})" if call.has("negative_slope") else "nn.leaky_relu({input})"
    )


@rule("torch.nn.functional.elu", signature="input, alpha=1.0, inplace=False", elementwise=True, dtype="float")
def elu(call: Call) -> Expr:
    """The same default.

    >>> F.elu(x)  # x: f32[2, 3]
    nn.elu(x)
    """
    return call.make("nn.elu({input}, {alpha})" if call.has("alpha") else "nn.elu({input})")


@rule("torch.nn.functional.softplus", signature="input, beta=1, threshold=20", elementwise=True, dtype="float")
def softplus(call: Call) -> Expr:
    """torch is linear above the threshold, where the difference is below one ULP of float32.

    >>> F.softplus(x)  # x: f32[2, 3]
    nn.softplus(x)
    >>> F.softplus(x, beta=0.5)  # x: f32[2, 3]
    nn.softplus(0.5 * x) / 0.5
    """
    call.only("threshold", 20, 20.0)
    if call.has("beta") and call.literal("beta") != 1:
        return call.make("nn.softplus({beta} * {input}) / {beta}")
    return call.make("nn.softplus({input})")


def _softmax(name: str) -> Rule:
    def function(call: Call) -> Value:
        given = "{input}.astype({dtype})" if call.has("dtype") else "{input}"
        made = call.make(f"nn.{name}({given}, axis={{axis}})", axis=_softmax_axis(call))
        return Value(made, Tensor("float", call.rank("input")))

    doc = (
        f"Without `dim` torch goes by the number of axes: it takes the first of 0, 1 or 3, else the second.\n\n"
        f"    >>> F.{name}(x, dim=1)  # x: f32[2, 3]\n    nn.{name}(x, axis=1)\n"
        f"    >>> x.{name}(-1)  # x: f32[2, 3]\n    nn.{name}(x, axis=-1)\n"
        f"    >>> F.{name}(x, -1, dtype=torch.float32)  # x: i32[2, 3]\n"
        f"    nn.{name}(x.astype(jnp.float32), axis=-1)\n"
        f"    >>> F.{name}(x)  # x: f32[2, 3]\n    nn.{name}(x, axis=0 if x.ndim in (0, 1, 3) else 1)\n"
    )
    names = (f"torch.nn.functional.{name}", f"torch.{name}", f"Tensor.{name}")
    return Rule(
        names, signature("input, dim=None, _stacklevel=3, dtype=None"), function, False, "float", doc, "functional"
    )


def _softmax_axis(call: Call) -> Expr:
    if call.has("dim"):
        return call.node("dim")
    if call.api.startswith("torch.nn.functional.") and call.rank("input") >= 0:
        return cst.Integer("0" if call.rank("input") in (0, 1, 3) else "1")
    if call.api.startswith("torch.nn.functional."):
        call.name("input")
        return call.make("0 if {input}.ndim in (0, 1, 3) else 1")
    raise Unsupported("MIG302", f"{call.api} without dim")


register(_softmax("softmax"))
register(_softmax("log_softmax"))


@rule("torch.nn.functional.glu", signature="input, dim=-1", dtype="float")
def glu(call: Call) -> Expr:
    """The first half times the sigmoid of the second.

    >>> F.glu(x)  # x: f32[2, 6]
    nn.glu(x)
    >>> F.glu(x, dim=1)  # x: f32[2, 4, 3]
    nn.glu(x, 1)
    """
    return call.make("nn.glu({input}, {dim})" if call.has("dim") else "nn.glu({input})")


@rule(
    "torch.nn.functional.hardtanh",
    signature="input, min_val=-1.0, max_val=1.0, inplace=False",
    elementwise=True,
)
def hardtanh(call: Call) -> Value:
    """A clamp, which keeps integers. The gradient at the bounds is 0 in torch and 1 in JAX, unless that is told.

    >>> F.hardtanh(x)  # x: f32[2, 3]
    hard_tanh(x)
    >>> F.hardtanh(x, 0.0, 0.5)  # x: f32[2, 3]
    hard_tanh(x, min=0.0, max=0.5)
    """
    bounds = call.given(min_val="min", max_val="max")
    node = nodes.call(call.snippet("hard_tanh"), call.node("input"), **bounds)
    kind = call.kind("input")
    whole = isinstance(kind, Tensor) and kind.dtype == "int"
    return Value(node, Tensor("int" if whole else "float", call.rank("input")))


@rule("torch.nn.functional.relu6", signature="input, inplace=False", elementwise=True)
def relu6(call: Call) -> Expr:
    """Integers are kept, of which `nn.relu6` makes floats.

    >>> F.relu6(x.exp())  # x: f32[2, 3]
    nn.relu6(jnp.exp(x))
    >>> F.relu6(x)  # x: f32[2, 3]
    hard_tanh(x, 0, 6)
    """
    kind = call.kind("input")
    floats = isinstance(kind, Tensor) and kind.dtype == "float"
    return call.make("nn.relu6({input})" if floats else f"{call.snippet('hard_tanh')}({{input}}, 0, 6)")


def _simple(name: str, parameters: str, template: str, note: str, text: str, expected: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(template)

    doc = f"{note}\n\n    >>> {text}  # x: f32[2, 3]\n    {expected}\n"
    names = (f"torch.nn.functional.{name}", *(("torch.celu",) if name == "celu" else ()))
    return Rule(names, signature(parameters), function, True, "float", doc, "activation")


register(
    _simple(
        "softshrink", "input, lambd=0.5",
        "jnp.where(jnp.abs({input}) <= {lambd}, 0, {input} - jnp.sign({input}) * {lambd})",
        "Towards 0 by lambd; NaN stays NaN.", "F.softshrink(x)",
        "jnp.where(jnp.abs(x) <= 0.5, 0, x - jnp.sign(x) * 0.5)",
    )
)  # fmt: skip
register(
    _simple(
        "hardshrink", "input, lambd=0.5", "jnp.where(jnp.abs({input}) <= {lambd}, 0, {input})",
        "0 where it is small; NaN stays NaN.", "F.hardshrink(x, 0.3)", "jnp.where(jnp.abs(x) <= 0.3, 0, x)",
    )
)  # fmt: skip
register(
    _simple(
        "tanhshrink", "input", "{input} - jnp.tanh({input})", "What tanh leaves.", "F.tanhshrink(x)", "x - jnp.tanh(x)"
    )
)
register(
    _simple(
        "threshold", "input, threshold, value, inplace=False", "jnp.where({input} <= {threshold}, {value}, {input})",
        "Another value up to the threshold; NaN stays NaN.", "F.threshold(x, 0.1, -2.0)",
        "jnp.where(x <= 0.1, -2.0, x)",
    )
)  # fmt: skip
register(
    _simple(
        "celu", "input, alpha=1.0, inplace=False", "nn.celu({input}, {alpha})", "Smooth for every alpha.",
        "F.celu(x, 0.5)", "nn.celu(x, 0.5)",
    )
)  # fmt: skip


@rule("torch.nn.functional.prelu", "torch.prelu", "Tensor.prelu", signature="input, weight", dtype="float")
def prelu(call: Call) -> Expr:
    """One slope, or one for each channel (axis 1).

    >>> F.prelu(x, y)  # x: f32[2, 3, 4]; y: f32[3]
    prelu(x, y)
    >>> F.prelu(x, y)  # x: f32[5]; y: f32[1]
    prelu(x, y)
    """
    call.snippet("prelu")
    return call.make("prelu({input}, {weight})")


@rule("torch.nn.functional.softmin", signature="input, dim=None, _stacklevel=3, dtype=None", dtype="float")
def softmin(call: Call) -> Expr:
    """Of the negative values.

    >>> F.softmin(x, dim=1)  # x: f32[2, 3]
    nn.softmax(-x, axis=1)
    """
    call.only("dtype", None)
    if not call.has("dim"):
        raise Unsupported("MIG302", f"{call.api} without dim")
    return call.make("nn.softmax(-{input}, axis={dim})")


@rule(
    "torch.nn.functional.rrelu", "torch.rrelu",
    signature="input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False",
    elementwise=True, dtype="float",
)  # fmt: skip
def rrelu(call: Call) -> Expr:
    """Outside of training a leaky ReLU of the mean slope; in training slopes are random, which is refused.

    >>> F.rrelu(x, 0.1, 0.3)  # x: f32[2, 3]
    nn.leaky_relu(x, (0.1 + 0.3) / 2)
    """
    call.only("training", False)
    return call.make("nn.leaky_relu({input}, ({lower} + {upper}) / 2)")


_GAINS = {"tanh": "(5 / 3)", "relu": "2**0.5", "selu": "0.75"}
_NO_GAIN = ("linear", "sigmoid", *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)))


@rule("torch.nn.init.calculate_gain", signature="nonlinearity, param=None")
def calculate_gain(call: Call) -> Value:
    """By how much initial weights are scaled for what follows them.

    >>> x * torch.nn.init.calculate_gain("relu")  # x: f32[2, 3]
    x * (2**0.5)

    >>> x * torch.nn.init.calculate_gain("leaky_relu", 0.2)  # x: f32[2, 3]
    x * ((2 / (1 + 0.2**2)) ** 0.5)

    >>> x * torch.nn.init.calculate_gain("tanh")  # x: f32[2, 3]
    x * (5 / 3)
    """
    name = str(call.literal("nonlinearity"))
    if name in _NO_GAIN:
        return Value(call.make("1.0"), Number())
    if name == "leaky_relu":
        slope = "{param}" if call.has("param") else "0.01"
        return Value(call.make(f"(2 / (1 + {slope}**2)) ** 0.5"), Number())
    if name not in _GAINS:
        raise Unsupported("MIG302", f"torch.nn.init.calculate_gain: the gain of {name} is not known")
    return Value(call.make(_GAINS[name]), Number())

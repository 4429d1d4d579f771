"""Activations as functions."""

from migrate.diagnostics import Unsupported
from migrate.kinds import Tensor
from migrate.nodes import Expr
from migrate.rules.rule import Call, Rule, Value, register, rule, signature

# torch name: (target, parameters, further names)
_ACTIVATIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "relu": ("nn.relu", "input, inplace=False", ("torch.relu", "Tensor.relu")),
    "relu6": ("nn.relu6", "input, inplace=False", ()),
    "silu": ("nn.silu", "input, inplace=False", ()),
    "selu": ("nn.selu", "input, inplace=False", ("torch.selu",)),
    "mish": ("jax.nn.mish", "input, inplace=False", ()),
    "tanh": ("nn.tanh", "input", ()),
    "sigmoid": ("nn.sigmoid", "input", ()),
    "logsigmoid": ("nn.log_sigmoid", "input", ()),
    "softsign": ("nn.soft_sign", "input", ()),
    "hardswish": ("nn.hard_swish", "input, inplace=False", ()),
}


def _activation(name: str, target: str, parameters: str, more: tuple[str, ...]) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{target}({{input}})")

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
    """
    call.only("beta", 1, 1.0)
    call.only("threshold", 20, 20.0)
    return call.make("nn.softplus({input})")


def _softmax(name: str) -> Rule:
    def function(call: Call) -> Value:
        call.only("dtype", None)
        if not call.has("dim"):
            raise Unsupported("MIG302", f"{call.api} without dim")
        kind = call.kind("input")
        return Value(
            call.make(f"nn.{name}({{input}}, axis={{dim}})"),
            Tensor("float", kind.rank if isinstance(kind, Tensor) else -1),
        )

    doc = (
        f"Without `dim` torch picks an axis by rank, which is deprecated and refused.\n\n"
        f"    >>> F.{name}(x, dim=1)  # x: f32[2, 3]\n    nn.{name}(x, axis=1)\n"
        f"    >>> x.{name}(-1)  # x: f32[2, 3]\n    nn.{name}(x, axis=-1)\n"
    )
    names = (f"torch.nn.functional.{name}", f"torch.{name}", f"Tensor.{name}")
    return Rule(
        names, signature("input, dim=None, _stacklevel=3, dtype=None"), function, False, "float", doc, "functional"
    )


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
    dtype="float",
)
def hardtanh(call: Call) -> Expr:
    """A clamp.

    >>> F.hardtanh(x)  # x: f32[2, 3]
    nn.hard_tanh(x)
    """
    call.only("min_val", -1.0, -1)
    call.only("max_val", 1.0, 1)
    return call.make("nn.hard_tanh({input})")

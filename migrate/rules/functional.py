"""torch.nn.functional: activations, normalisation, losses, dropout."""

from migrate import nodes
from migrate.kinds import Tensor
from migrate.nodes import Expr
from migrate.rules.rule import Call, Rule, Value, register, rule, signature

_ACTIVATIONS = {
    "relu": "nn.relu",
    "relu6": "nn.relu6",
    "silu": "nn.silu",
    "tanh": "nn.tanh",
    "sigmoid": "nn.sigmoid",
    "logsigmoid": "nn.log_sigmoid",
    "softsign": "nn.soft_sign",
    "hardswish": "nn.hard_swish",
}


def _activation(name: str, target: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{target}({{input}})")

    names = [f"torch.nn.functional.{name}"]
    if name == "relu":
        names += ["torch.relu", "Tensor.relu"]
    doc = f"Elementwise.\n\n    >>> F.{name}(x)  # x: f32[2, 3]\n    {target}(x)\n"
    return Rule(tuple(names), signature("input, inplace=False"), function, True, "float", doc, "functional")


for _name, _target in _ACTIVATIONS.items():
    register(_activation(_name, _target))


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
    """The same default slope.

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
        if call.has("dtype"):
            raise_dtype(call)
        if not call.has("dim"):
            raise_dim(call)
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


def raise_dtype(call: Call) -> None:
    call.only("dtype", None)


def raise_dim(call: Call) -> None:
    from migrate.diagnostics import Unsupported

    raise Unsupported("MIG302", f"{call.api} without dim")


register(_softmax("softmax"))
register(_softmax("log_softmax"))


@rule("torch.nn.functional.normalize", signature="input, p=2.0, dim=1, eps=1e-12, out=None", dtype="float")
def normalize(call: Call) -> Expr:
    """Divides by the norm, which is clamped from below by eps.

    >>> F.normalize(x, dim=1)  # x: f32[2, 3]
    x / jnp.linalg.norm(x, axis=1, keepdims=True).clip(1e-12)
    """
    call.only("p", 2.0, 2)
    return call.make("{input} / jnp.linalg.norm({input}, axis={dim}, keepdims=True).clip({eps})")


@rule("torch.nn.functional.one_hot", signature="tensor, num_classes=-1", dtype="int")
def one_hot(call: Call) -> Expr:
    """Integers in torch, floats in JAX; the number of classes must be given.

    >>> F.one_hot(x, 4)  # x: idx4[5]
    nn.one_hot(x, 4, dtype=jnp.int32)
    """
    if not call.has("num_classes"):
        raise_dim(call)
    return call.make("nn.one_hot({tensor}, {num_classes}, dtype=jnp.int32)")


@rule("torch.nn.functional.linear", signature="input, weight, bias=None", dtype="float")
def linear(call: Call) -> Expr:
    """The weight is (out, in).

    >>> F.linear(x, y)  # x: f32[2, 3]; y: f32[4, 3]
    x @ y.T
    >>> F.linear(x, y, z)  # x: f32[2, 3]; y: f32[4, 3]; z: f32[4]
    (x @ y.T) + z
    """
    return call.make("{input} @ {weight}.T + {bias}" if call.has("bias") else "{input} @ {weight}.T")


def _reduction(call: Call, losses: Expr) -> Value:
    call.only("size_average", None)
    call.only("reduce", None)
    reduction = call.literal("reduction")
    if reduction == "none":
        return Value(losses, Tensor("float"))
    return Value(nodes.expression(f"{{losses}}.{reduction}()", losses=losses), Tensor("float", 0))


LOSS = "size_average=None, reduce=None, reduction='mean'"


@rule("torch.nn.functional.mse_loss", signature=f"input, target, {LOSS}")
def mse_loss(call: Call) -> Value:
    """The mean over all elements.

    >>> F.mse_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.square(x - y).mean()
    >>> F.mse_loss(x, y, reduction="sum")  # x: f32[2, 3]; y: f32[2, 3]
    jnp.square(x - y).sum()
    """
    return _reduction(call, call.make("jnp.square({input} - {target})"))


@rule("torch.nn.functional.l1_loss", signature=f"input, target, {LOSS}")
def l1_loss(call: Call) -> Value:
    """The mean over all elements.

    >>> F.l1_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.abs(x - y).mean()
    """
    return _reduction(call, call.make("jnp.abs({input} - {target})"))


@rule("torch.nn.functional.smooth_l1_loss", signature=f"input, target, {LOSS}, beta=1.0")
def smooth_l1_loss(call: Call) -> Value:
    """Huber's loss divided by beta.

    >>> F.smooth_l1_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    optax.huber_loss(x, y).mean()
    """
    call.only("beta", 1.0, 1)
    return _reduction(call, call.make("optax.huber_loss({input}, {target})"))


@rule(
    "torch.nn.functional.binary_cross_entropy_with_logits",
    signature=f"input, target, weight=None, {LOSS}, pos_weight=None",
)
def binary_cross_entropy_with_logits(call: Call) -> Value:
    """The mean over all elements.

    >>> F.binary_cross_entropy_with_logits(x, y)  # x: f32[2, 3]; y: unit[2, 3]
    optax.sigmoid_binary_cross_entropy(x, y).mean()
    """
    call.only("weight", None)
    call.only("pos_weight", None)
    return _reduction(call, call.make("optax.sigmoid_binary_cross_entropy({input}, {target})"))


@rule("torch.nn.functional.binary_cross_entropy", signature=f"input, target, weight=None, {LOSS}")
def binary_cross_entropy(call: Call) -> Value:
    """torch clamps the logarithms at -100, so that 0 and 1 give finite losses.

    >>> F.binary_cross_entropy(x, y)  # x: unit[2, 3]; y: unit[2, 3]
    binary_cross_entropy(x, y).mean()
    """
    call.only("weight", None)
    call.snippet("binary_cross_entropy")
    return _reduction(call, call.make("binary_cross_entropy({input}, {target})"))


@rule("torch.nn.functional.kl_div", signature=f"input, target, {LOSS}, log_target=False")
def kl_div(call: Call) -> Value:
    """The input is log-probabilities; 'mean' divides by all elements, 'batchmean' by the batch.

    >>> F.kl_div(x, y, reduction="sum")  # x: f32[2, 3]; y: unit[2, 3]
    jax.scipy.special.xlogy(y, y).sum() - (y * x).sum()
    """
    call.only("reduction", "sum")
    call.only("log_target", False)
    node = call.make("jax.scipy.special.xlogy({target}, {target}).sum() - ({target} * {input}).sum()")
    return Value(node, Tensor("float", 0))


def _classes(call: Call, snippet: str, extra: tuple[str, ...]) -> Value:
    call.only("size_average", None)
    call.only("reduce", None)
    call.only("weight", None)
    call.snippet(snippet)
    keywords = {name: call.node(name) for name in ("ignore_index", "reduction", *extra) if call.has(name)}
    node = nodes.call(snippet, call.node("input"), call.node("target"), **keywords)
    return Value(node, Tensor("float", -1 if call.literal("reduction") == "none" else 0))


@rule(
    "torch.nn.functional.nll_loss",
    signature="input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'",
)
def nll_loss(call: Call) -> Value:
    """Takes log-probabilities; labels of -100 are left out, and the mean is over those kept.

    >>> F.nll_loss(x, y)  # x: f32[5, 4]; y: idx4[5]
    nll_loss(x, y)
    >>> F.nll_loss(x, y, reduction="sum")  # x: f32[5, 4]; y: idx4[5]
    nll_loss(x, y, reduction="sum")
    """
    return _classes(call, "nll_loss", ())


@rule(
    "torch.nn.functional.cross_entropy",
    signature="input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', "
    "label_smoothing=0.0",
)
def cross_entropy(call: Call) -> Value:
    """Takes logits and integer labels; labels of -100 are left out, and the mean is over those kept.

    >>> F.cross_entropy(x, y)  # x: f32[5, 4]; y: idx4[5]
    cross_entropy(x, y)
    >>> F.cross_entropy(x, y, label_smoothing=0.1)  # x: f32[5, 4, 2]; y: idx4[5, 2]
    cross_entropy(x, y, label_smoothing=0.1)
    >>> F.cross_entropy(x, y, ignore_index=1, reduction="none")  # x: f32[5, 4]; y: idx4[5]
    cross_entropy(x, y, ignore_index=1, reduction="none")
    """
    kind = call.kind("target")
    if isinstance(kind, Tensor) and kind.dtype == "float":
        raise_target(call)
    return _classes(call, "cross_entropy", ("label_smoothing",))


def raise_target(call: Call) -> None:
    from migrate.diagnostics import Unsupported

    raise Unsupported("MIG302", f"{call.api}: probabilities as target are not supported")


@rule(
    "torch.nn.functional.dropout", signature="input, p=0.5, training=True, inplace=False", elementwise=True, draws=True
)
def dropout(call: Call) -> Expr:
    """Drops in eval mode too unless `training` says otherwise.

    >>> F.dropout(x, 0.2, training=self.training)  # x: f32[4, 5]
    dropout(key, x, 0.2, self.training)
    >>> F.dropout(x)  # x: f32[4, 5]
    dropout(key, x, 0.5)
    """
    if nodes.is_literal(call.node("training"), False):
        return call.node("input")
    call.snippet("dropout")
    given = [call.node("training")] if call.has("training") else []
    return nodes.call("dropout", call.key(), call.node("input"), call.node("p"), *given)


@rule("torch.nn.functional.pad", signature="input, pad, mode='constant', value=None")
def pad(call: Call) -> Expr:
    """Pairs from the last axis backwards.

    >>> F.pad(x, (1, 2))  # x: f32[2, 3]
    jnp.pad(x, ([(0, 0)] * (x.ndim - 1)) + [(1, 2)])
    """
    call.only("mode", "constant")
    sizes = call.literal("pad")
    assert isinstance(sizes, list | tuple)
    pairs = [tuple(sizes[i : i + 2]) for i in range(0, len(sizes), 2)][::-1]
    template = f"jnp.pad({{input}}, [(0, 0)] * ({{input}}.ndim - {len(pairs)}) + {pairs})"
    if call.has("value"):
        template = template[:-1] + ", constant_values={value})"
    return call.make(template)

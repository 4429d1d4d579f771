"""Losses as functions. Loss modules stand for them (`migrate.optimizers.LOSSES`)."""

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Tensor
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def reduction_of(call: Call) -> object:
    """The reduction: what `reduction` says, unless one of the older `size_average` and `reduce` is given, which torch
    puts before it and takes for true where only the other is given."""
    older = [name for name in ("size_average", "reduce") if call.has(name)]
    if not older:
        reduction = call.literal("reduction")
        return "mean" if reduction == "elementwise_mean" else reduction  # as torch 0.4 called it
    false = [name for name in older if not call.literal(name)]
    if "reduce" in false:
        return "none"
    return "sum" if false else "mean"


def _reduction_keyword(call: Call) -> dict[str, Expr]:
    """The keyword `reduction` for a snippet whose own default is the mean."""
    reduction = reduction_of(call)
    if reduction not in ("mean", "sum", "none"):
        raise Unsupported("MIG302", f"{call.api}: there is no reduction {reduction!r}")
    return {} if reduction == "mean" else {"reduction": nodes.expression(f'"{reduction}"')}


def reduced(call: Call, losses: Expr) -> Value:
    """Losses of the elements, and what `reduction` says of them."""
    reduction = reduction_of(call)
    if reduction == "none":
        return Value(losses, Tensor("float"))
    if reduction not in ("mean", "sum"):
        raise Unsupported("MIG302", f"{call.api}: there is no reduction {reduction!r}")
    return Value(nodes.expression(f"{{losses}}.{reduction}()", losses=losses), Tensor("float", 0))


LOSS = "size_average=None, reduce=None, reduction='mean'"


@rule("torch.nn.functional.mse_loss", signature=f"input, target, {LOSS}")
def mse_loss(call: Call) -> Value:
    """The mean over all elements.

    >>> F.mse_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.square(x - y).mean()
    >>> F.mse_loss(x, y, reduction="sum")  # x: f32[2, 3]; y: f32[2, 3]
    jnp.square(x - y).sum()
    >>> F.mse_loss(x, y, size_average=True, reduce=False)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.square(x - y)
    """
    return reduced(call, call.make("jnp.square({input} - {target})"))


@rule("torch.nn.functional.l1_loss", signature=f"input, target, {LOSS}")
def l1_loss(call: Call) -> Value:
    """The mean over all elements. The gradient where both are equal is 0.

    >>> F.l1_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    absolute(x - y).mean()
    """
    return reduced(call, call.make(f"{call.snippet('absolute')}({{input}} - {{target}})"))


@rule("torch.nn.functional.smooth_l1_loss", signature=f"input, target, {LOSS}, beta=1.0")
def smooth_l1_loss(call: Call) -> Value:
    """Huber's loss divided by beta.

    >>> F.smooth_l1_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    optax.huber_loss(x, y).mean()
    >>> F.smooth_l1_loss(x, y, beta=0.5)  # x: f32[2, 3]; y: f32[2, 3]
    (optax.huber_loss(x, y, delta=0.5) / 0.5).mean()
    """
    if nodes.is_literal(call.node("beta"), 0) or nodes.is_literal(call.node("beta"), 0.0):
        raise Unsupported("MIG302", f"{call.api}: beta=0 divides by zero; l1_loss is what it means")
    scaled = "optax.huber_loss({input}, {target}, delta={beta}) / {beta}"
    return reduced(call, call.make(scaled if call.has("beta") else "optax.huber_loss({input}, {target})"))


@rule(
    "torch.nn.functional.binary_cross_entropy_with_logits",
    signature=f"input, target, weight=None, {LOSS}, pos_weight=None",
)
def binary_cross_entropy_with_logits(call: Call) -> Value:
    """The mean over all elements.

    >>> F.binary_cross_entropy_with_logits(x, y)  # x: f32[2, 3]; y: unit[2, 3]
    optax.sigmoid_binary_cross_entropy(x, y).mean()
    >>> F.binary_cross_entropy_with_logits(x, y, weight=z)  # x: f32[2, 3]; y: unit[2, 3]; z: const[3]
    (z * optax.sigmoid_binary_cross_entropy(x, y)).mean()
    >>> F.binary_cross_entropy_with_logits(x, y, pos_weight=z)  # x: f32[2, 3]; y: unit[2, 3]; z: const[3]
    ((1 - y) * x + (1 + (z - 1) * y) * nn.softplus(-x)).mean()
    """
    losses = call.make("optax.sigmoid_binary_cross_entropy({input}, {target})")
    if call.has("pos_weight"):
        weights = "(1 + ({pos_weight} - 1) * {target})"
        losses = call.make(f"(1 - {{target}}) * {{input}} + {weights} * nn.softplus(-{{input}})")
    if call.has("weight"):
        losses = nodes.expression("{weight} * {losses}", weight=call.node("weight"), losses=losses)
    return reduced(call, losses)


@rule("torch.nn.functional.binary_cross_entropy", signature=f"input, target, weight=None, {LOSS}")
def binary_cross_entropy(call: Call) -> Value:
    """torch clamps the logarithms at -100, so that 0 and 1 give finite losses.

    Its gradient is divided by p (1 - p), but by no less than 1e-12: where a probability is all but 0 or 1, a sigmoid's
    input gets next to no gradient. Second derivatives are of that gradient; torch's are other approximations there.

    >>> F.binary_cross_entropy(x, y)  # x: unit[2, 3]; y: unit[2, 3]
    binary_cross_entropy(x, y).mean()
    >>> F.binary_cross_entropy(x, y, weight=z)  # x: unit[2, 3]; y: unit[2, 3]; z: const[3]
    (z * binary_cross_entropy(x, y)).mean()
    >>> F.binary_cross_entropy(x, y, size_average=False)  # x: unit[2, 3]; y: unit[2, 3]
    binary_cross_entropy(x, y).sum()
    """
    call.snippet("binary_cross_entropy")
    weighted = "{weight} * " if call.has("weight") else ""
    return reduced(call, call.make(weighted + "binary_cross_entropy({input}, {target})"))


@rule("torch.nn.functional.huber_loss", signature="input, target, reduction='mean', delta=1.0, weight=None")
def huber_loss(call: Call) -> Value:
    """Quadratic up to delta; not divided by it, unlike smooth_l1_loss.

    >>> F.huber_loss(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    optax.huber_loss(x, y).mean()
    >>> F.huber_loss(x, y, delta=0.5)  # x: f32[2, 3]; y: f32[2, 3]
    optax.huber_loss(x, y, delta=0.5).mean()
    """
    delta = ", delta={delta}" if call.has("delta") else ""
    weighted = "{weight} * " if call.has("weight") else ""
    return reduced(call, call.make(f"{weighted}optax.huber_loss({{input}}, {{target}}{delta})"))


@rule("torch.nn.functional.kl_div", signature=f"input, target, {LOSS}, log_target=False")
def kl_div(call: Call) -> Value:
    """Takes log-probabilities, and probabilities as target; "mean" divides by all elements, "batchmean" by the batch.

    >>> F.kl_div(x, y, reduction="sum")  # x: f32[2, 3]; y: unit[2, 3]
    kl_div(x, y).sum()
    >>> F.kl_div(x, y, reduction="batchmean")  # x: f32[2, 3]; y: unit[2, 3]
    kl_div(x, y).sum() / x.shape[0]
    >>> F.kl_div(x, y, reduction="sum", log_target=True)  # x: f32[2, 3]; y: f32[2, 3]
    (jnp.exp(y) * (y - x)).sum()
    >>> F.kl_div(x, y, size_average=False)  # x: f32[2, 3]; y: unit[2, 3]
    kl_div(x, y).sum()
    """
    if nodes.is_literal(call.node("log_target"), True):
        losses = call.make("jnp.exp({target}) * ({target} - {input})")
    else:
        call.only("log_target", False)
        call.snippet("kl_div")
        losses = call.make("kl_div({input}, {target})")
    if reduction_of(call) == "batchmean":
        made = nodes.expression("{losses}.sum() / {input}.shape[0]", losses=losses, input=call.node("input"))
        return Value(made, Tensor("float", 0))
    return reduced(call, losses)


def _classes(call: Call, snippet: str, extra: tuple[str, ...]) -> Value:
    weight = [call.node("weight")] if call.has("weight") else []
    if weight:
        snippet = {"cross_entropy": "weighted_cross_entropy", "nll_loss": "weighted_nll_loss"}[snippet]
    call.snippet(snippet)
    keywords = call.given("ignore_index") | _reduction_keyword(call) | call.given(*extra)
    node = nodes.call(snippet, call.node("input"), call.node("target"), *weight, **keywords)
    return Value(node, Tensor("float", -1 if reduction_of(call) == "none" else 0))


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
    >>> F.nll_loss(x, y, z)  # x: f32[5, 4]; y: idx4[5]; z: const[4]
    weighted_nll_loss(x, y, z)
    """
    return _classes(call, "nll_loss", ())


@rule(
    "torch.nn.functional.cross_entropy",
    signature="input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', "
    "label_smoothing=0.0",
)
def cross_entropy(call: Call) -> Value:
    """Takes logits and integer labels; labels of -100 are left out, and the mean is over those kept. A target of the
    shape of the logits holds probabilities.

    >>> F.cross_entropy(x, y)  # x: f32[5, 4]; y: idx4[5]
    cross_entropy(x, y)
    >>> F.cross_entropy(x, y, label_smoothing=0.1)  # x: f32[5, 4, 2]; y: idx4[5, 2]
    cross_entropy(x, y, label_smoothing=0.1)
    >>> F.cross_entropy(x, y, ignore_index=1, reduction="none")  # x: f32[5, 4]; y: idx4[5]
    cross_entropy(x, y, ignore_index=1, reduction="none")
    >>> F.cross_entropy(x, y, z, label_smoothing=0.1)  # x: f32[5, 4]; y: idx4[5]; z: const[4]
    weighted_cross_entropy(x, y, z, label_smoothing=0.1)
    >>> F.cross_entropy(x, y.softmax(1), label_smoothing=0.1)  # x: f32[5, 4]; y: f32[5, 4]
    soft_cross_entropy(x, nn.softmax(y, axis=1), label_smoothing=0.1)
    >>> F.cross_entropy(x, y, z, label_smoothing=0.1)  # x: f32[5, 4]; y: unit[5, 4]; z: const[4]
    weighted_cross_entropy(x, y, z, label_smoothing=0.1)
    >>> F.cross_entropy(x, y, size_average=False)  # x: f32[5, 4]; y: idx4[5]
    cross_entropy(x, y, reduction="sum")
    >>> F.cross_entropy(x, y.softmax(1), size_average=False)  # x: f32[5, 4]; y: f32[5, 4]
    soft_cross_entropy(x, nn.softmax(y, axis=1), reduction="sum")
    """
    kind = call.kind("target")
    if isinstance(kind, Tensor) and kind.dtype == "float" and not call.has("weight"):
        call.snippet("soft_cross_entropy")
        keywords = _reduction_keyword(call) | call.given("label_smoothing")
        made = nodes.call("soft_cross_entropy", call.node("input"), call.node("target"), **keywords)
        return Value(made, Tensor("float", -1 if reduction_of(call) == "none" else 0))
    return _classes(call, "cross_entropy", ("label_smoothing",))


@rule(
    "torch.nn.functional.ctc_loss",
    signature="log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', zero_infinity=False",
)
def ctc_loss(call: Call) -> Value:
    """The mean divides each loss by the length of its target first. An alignment that cannot be is infinite.

    >>> F.ctc_loss(x.log_softmax(2), y + 1, (6, 4), (3, 2))  # x: f32[6, 2, 4]; y: idx3[2, 3]
    ctc_loss(nn.log_softmax(x, axis=2), y + 1, (6, 4), (3, 2))
    >>> F.ctc_loss(x.log_softmax(2), y, (6, 4), (3, 2), blank=3, reduction="none")  # x: f32[6, 2, 4]; y: idx3[5]
    ctc_loss(nn.log_softmax(x, axis=2), y, (6, 4), (3, 2), blank=3, reduction="none")
    >>> F.ctc_loss(x, y + 1, (6, 1), (3, 2), zero_infinity=True)  # x: f32[6, 2, 4]; y: idx3[2, 3]
    ctc_loss(x, y + 1, (6, 1), (3, 2), zero_infinity=True)
    """
    call.snippet("ctc_loss")
    given = [call.node(name) for name in ("log_probs", "targets", "input_lengths", "target_lengths")]
    keywords = call.given("blank") | _reduction_keyword(call) | call.given("zero_infinity")
    return Value(nodes.call("ctc_loss", *given, **keywords), Tensor("float", -1 if reduction_of(call) == "none" else 0))

"""torch.nn.functional: losses of pairs, of distributions' parameters, of margins."""

from migrate.rules.losses import LOSS, reduced
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes


@rule("torch.nn.functional.gaussian_nll_loss", signature="input, target, var, full=False, eps=1e-06, reduction='mean'")
def gaussian_nll_loss(call: Call) -> Value:
    """The variance is clamped from below by eps, without its gradient; the constant only with full=True.

    >>> F.gaussian_nll_loss(x, y, z)  # x: f32[2, 3]; y: f32[2, 3]; z: pos[2, 3]
    gaussian_nll_loss(x, y, z).mean()
    >>> F.gaussian_nll_loss(x, y, z, full=True, reduction="sum")  # x: f32[2, 3]; y: f32[2, 3]; z: pos[2, 3]
    gaussian_nll_loss(x, y, z, full=True).sum()
    """
    call.snippet("gaussian_nll_loss")
    positional = [call.node(name) for name in ("input", "target", "var")]
    return reduced(call, nodes.call("gaussian_nll_loss", *positional, **call.given("eps", "full")))


@rule(
    "torch.nn.functional.poisson_nll_loss",
    signature="input, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction='mean'",
)
def poisson_nll_loss(call: Call) -> Value:
    """Takes the logarithm of the rate by default.

    >>> F.poisson_nll_loss(x, y)  # x: f32[2, 3]; y: pos[2, 3]
    (jnp.exp(x) - y * x).mean()
    >>> F.poisson_nll_loss(x, y, log_input=False)  # x: pos[2, 3]; y: pos[2, 3]
    (x - y * jnp.log(x + 1e-08)).mean()
    >>> F.poisson_nll_loss(x, y, full=True)  # x: f32[2, 3]; y: const[2, 3]
    ((jnp.exp(x) - y * x) + log_factorial(y)).mean()
    """
    call.only("log_input", True, False)
    call.only("full", True, False)
    text = "jnp.exp({input}) - {target} * {input}"
    made = call.make(text if call.literal("log_input") else "{input} - {target} * jnp.log({input} + {eps})")
    if call.has("full"):
        made = call.make("{x} + {f}({target})", x=made, f=call.snippet("log_factorial"))
    return reduced(call, made)


@rule("torch.nn.functional.soft_margin_loss", signature=f"input, target, {LOSS}")
def soft_margin_loss(call: Call) -> Value:
    """Targets are 1 and -1.

    >>> F.soft_margin_loss(x, y)  # x: f32[2, 3]; y: i32[2, 3]
    nn.softplus(-y * x).mean()
    """
    return reduced(call, call.make("nn.softplus(-{target} * {input})"))


@rule(
    "torch.nn.functional.margin_ranking_loss",
    signature=f"input1, input2, target, margin=0, {LOSS}",
)
def margin_ranking_loss(call: Call) -> Value:
    """Targets are 1 where the first input should be larger, else -1.

    >>> F.margin_ranking_loss(x, y, z, margin=0.5)  # x: f32[5]; y: f32[5]; z: spread[5]
    nn.relu(-z * (x - y) + 0.5).mean()
    """
    margin = " + {margin}" if call.has("margin") else ""
    return reduced(call, call.make(f"nn.relu(-{{target}} * ({{input1}} - {{input2}}){margin})"))


@rule("torch.nn.functional.hinge_embedding_loss", signature=f"input, target, margin=1.0, {LOSS}")
def hinge_embedding_loss(call: Call) -> Value:
    """Targets are 1 and -1; of others torch adds up both.

    >>> F.hinge_embedding_loss(x, y)  # x: f32[3]; y: i32[3]
    (jnp.where(y == -1, 0, x) + jnp.where(y == 1, 0, nn.relu(1.0 - x))).mean()
    """
    near, far = "jnp.where({target} == -1, 0, {input})", "jnp.where({target} == 1, 0, nn.relu({margin} - {input}))"
    return reduced(call, call.make(f"{near} + {far}"))


@rule("torch.nn.functional.cosine_embedding_loss", signature=f"input1, input2, target, margin=0, {LOSS}")
def cosine_embedding_loss(call: Call) -> Value:
    """Targets are 1 and -1.

    >>> F.cosine_embedding_loss(x, y, (z > 0).float() * 2 - 1)  # x: f32[5, 3]; y: f32[5, 3]; z: spread[5]
    cosine_embedding_loss(x, y, (z > 0).astype(jnp.float32) * 2 - 1).mean()
    """
    call.snippet("cosine_embedding_loss")
    positional = [call.node(name) for name in ("input1", "input2", "target")]
    return reduced(call, nodes.call("cosine_embedding_loss", *positional, **call.given("margin")))


@rule(
    "torch.nn.functional.triplet_margin_loss",
    signature="anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, size_average=None, reduce=None, "
    "reduction='mean'",
)
def triplet_margin_loss(call: Call) -> Value:
    """Distances add eps to each difference.

    >>> F.triplet_margin_loss(x, y, z)  # x: f32[5, 3]; y: f32[5, 3]; z: f32[5, 3]
    triplet_margin_loss(x, y, z).mean()
    >>> F.triplet_margin_loss(x, y, z, margin=0.5, swap=True)  # x: f32[5, 3]; y: f32[5, 3]; z: f32[5, 3]
    triplet_margin_loss(x, y, z, margin=0.5, swap=True).mean()
    """
    call.snippet("triplet_margin_loss")
    positional = [call.node(name) for name in ("anchor", "positive", "negative")]
    return reduced(call, nodes.call("triplet_margin_loss", *positional, **call.given("margin", "p", "eps", "swap")))


@rule("torch.nn.functional.multilabel_soft_margin_loss", signature=f"input, target, weight=None, {LOSS}")
def multilabel_soft_margin_loss(call: Call) -> Value:
    """The mean over classes first.

    >>> F.multilabel_soft_margin_loss(x, y)  # x: f32[4, 3]; y: unit[4, 3]
    optax.sigmoid_binary_cross_entropy(x, y).mean(-1).mean()
    """
    call.only("weight", None)
    return reduced(call, call.make("optax.sigmoid_binary_cross_entropy({input}, {target}).mean(-1)"))


@rule(
    "torch.nn.functional.multi_margin_loss",
    signature="input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean'",
)
def multi_margin_loss(call: Call) -> Value:
    """Hinges of the other classes, over the number of classes.

    >>> F.multi_margin_loss(x, y)  # x: f32[5, 4]; y: idx4[5]
    multi_margin_loss(x, y).mean()
    """
    call.only("weight", None)
    call.snippet("multi_margin_loss")
    made = nodes.call("multi_margin_loss", call.node("input"), call.node("target"), **call.given("p", "margin"))
    return reduced(call, made)

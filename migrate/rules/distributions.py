"""torch.distributions: each class in common use becomes a small class that is copied into the output.

Its objects are pytrees, so that they may come out of a jitted function. `sample` cuts the gradient, `rsample` does not.
"""

from collections.abc import Mapping

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Distribution, Tensor
from migrate.rules.rule import Call, Rule, Value, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

# class: (module, parameters, an example's arguments, its inputs)
_BY_FIELDS: dict[str, tuple[str, str, str]] = {
    "Normal": ("loc, scale", "x, y", "x: f32[2, 3]; y: pos[3]"),
    "Laplace": ("loc, scale", "x, y", "x: spread[2, 3]; y: pos[3]"),
    "Uniform": ("low, high", "x, x + 9.0", "x: f32[2, 3]"),
    "Exponential": ("rate", "x", "x: pos[2, 3]"),
    "Beta": ("concentration1, concentration0", "x, y", "x: pos[2, 3]; y: pos[3]"),
    "Gamma": ("concentration, rate", "x, y", "x: pos[2, 3]; y: pos[3]"),
    "Dirichlet": ("concentration", "x", "x: pos[2, 3]"),
}


def _by_fields(cls: str, parameters: str, arguments: str, inputs: str) -> Rule:
    fields = [name.strip() for name in parameters.split(",")]

    def function(call: Call) -> Value:
        call.snippet(cls)
        return Value(nodes.call(cls, *[call.node(name) for name in fields]), Distribution(cls))

    inside = {"Uniform": "x + 1.0", "Dirichlet": "torch.softmax(x, -1)", "Beta": "torch.sigmoid(x)"}.get(cls, "x")
    shown = {"Dirichlet": "nn.softmax(x, axis=-1)", "Beta": "nn.sigmoid(x)"}.get(cls, inside)
    doc = (
        f"The same parameters.\n\n    >>> torch.distributions.{cls}({arguments}).log_prob({inside})  # {inputs}\n"
        f"    {cls}({arguments}).log_prob({shown})\n"
        f"    >>> torch.distributions.{cls}({arguments}).entropy()  # {inputs}\n    {cls}({arguments}).entropy()\n"
        f"    >>> torch.distributions.{cls}({arguments}).mean  # {inputs}\n    {cls}({arguments}).mean\n"
    )
    listed = signature(f"{parameters}, validate_args=None")
    return Rule((f"torch.distributions.{cls}",), listed, function, False, "", doc, "distributions")


for _cls, _described in _BY_FIELDS.items():
    register(_by_fields(_cls, *_described))


def _discrete(cls: str, value: str, inputs: Mapping[str, str], rewritten: str = "") -> Rule:
    """`value`: what the examples ask the probability of; `rewritten`: what becomes of it, where it changes."""

    def function(call: Call) -> Value:
        call.snippet(cls)
        source = "logits" if call.has("logits") else "probs"
        return Value(call.make(f"{cls}.from_{source}({{{source}}})"), Distribution(cls, discrete=True))

    doc = "Probabilities by default; they are normalised.\n\n"
    for source, shown in inputs.items():
        written = f"torch.distributions.{cls}({source}=x)"
        asked = rewritten or value
        doc += f"    >>> {written}.log_prob({value})  # {shown}\n    {cls}.from_{source}(x).log_prob({asked})\n"
        doc += f"    >>> {written}.entropy()  # x: {shown[3:].split(';')[0]}\n    {cls}.from_{source}(x).entropy()\n"
    parameters = signature("probs=None, logits=None, validate_args=None")
    return Rule((f"torch.distributions.{cls}",), parameters, function, False, "", doc, "distributions")


register(
    _discrete(
        "Categorical", "y",
        {"probs": "x: pos[4, 3]; y: idx3[4]", "logits": "x: f32[4, 3]; y: idx3[4]"},
    )
)  # fmt: skip
register(
    _discrete(
        "Bernoulli", "(y > 0) * 1.0",
        {"probs": "x: unit[2, 3]; y: spread[2, 3]", "logits": "x: f32[2, 3]; y: spread[2, 3]"},
    )
)  # fmt: skip
register(
    _discrete(
        "OneHotCategorical", "F.one_hot(y, 3)",
        {"logits": "x: f32[4, 3]; y: idx3[4]"}, "nn.one_hot(y, 3, dtype=jnp.int32)",
    )
)  # fmt: skip


@rule(
    "torch.distributions.MultivariateNormal",
    signature="loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None",
)
def multivariate_normal(call: Call) -> Value:
    """By its covariance, or by the lower triangular factor of it.

    >>> torch.distributions.MultivariateNormal(x, scale_tril=y.tril() + 2 * torch.eye(3)).entropy()  # x: f32[3]; y: unit[3, 3]
    MultivariateNormal(x, jnp.tril(y) + 2 * jnp.eye(3)).entropy()
    >>> torch.distributions.MultivariateNormal(x, torch.eye(3) + y @ y.mT).log_prob(z)  # x: f32[3]; y: unit[3, 3]; z: f32[2, 3]
    MultivariateNormal(x, jnp.linalg.cholesky(jnp.eye(3) + y @ y.mT)).log_prob(z)
    """  # noqa: E501
    call.only("precision_matrix", None)
    call.snippet("MultivariateNormal")
    factor = "{scale_tril}" if call.has("scale_tril") else "jnp.linalg.cholesky({covariance_matrix})"
    return Value(call.make(f"MultivariateNormal({{loc}}, {factor})"), Distribution("MultivariateNormal"))


@rule(
    "torch.distributions.Independent",
    signature="base_distribution, reinterpreted_batch_ndims, validate_args=None",
)
def independent(call: Call) -> Value:
    """Sums over the last axes.

    >>> torch.distributions.Independent(torch.distributions.Normal(x, y), 1).log_prob(x)  # x: f32[2, 3]; y: pos[3]
    Independent(Normal(x, y), 1).log_prob(x)
    """
    kind = call.kind("base_distribution")
    if not isinstance(kind, Distribution):
        raise Unsupported("MIG302", f"{call.api}: the distribution inside is not known")
    call.snippet("Independent")
    made = call.make("Independent({base_distribution}, {reinterpreted_batch_ndims})")
    return Value(made, Distribution(kind.cls and "Independent", kind.discrete))


def _drawn(call: Call, *, cut: bool) -> Value:
    kind = call.kind("self")
    assert isinstance(kind, Distribution)
    shape = [call.node("sample_shape")] if call.has("sample_shape") else []
    made: Expr = nodes.call(call.make("{self}.sample"), call.key(), *shape)
    if cut and call.differentiable and not (kind.cls and kind.discrete):
        made = nodes.call("jax.lax.stop_gradient", made)
    return Value(made, Tensor({"": "", "Categorical": "int"}.get(kind.cls, "float")))


@rule(
    "torch.distributions.Distribution.sample", signature="self, sample_shape=()", draws=True,
)  # fmt: skip
def sample(call: Call) -> Value:
    """Without a gradient.

    >>> torch.distributions.Normal(x, y).sample()  # x: f32[2, 3]; y: pos[3]
    jax.lax.stop_gradient(Normal(x, y).sample(key))
    >>> torch.distributions.Categorical(logits=x).sample((4,))  # x: f32[2, 3]
    Categorical.from_logits(x).sample(key, (4,))
    >>> torch.distributions.Bernoulli(x).sample()  # x: unit[2, 3]
    Bernoulli.from_probs(x).sample(key)
    >>> torch.distributions.Beta(x, y).sample()  # x: pos[2, 3]; y: pos[3]
    jax.lax.stop_gradient(Beta(x, y).sample(key))
    >>> torch.distributions.Gamma(x, y).sample()  # x: pos[2, 3]; y: pos[3]
    jax.lax.stop_gradient(Gamma(x, y).sample(key))
    >>> torch.distributions.Dirichlet(x).sample()  # x: pos[2, 3]
    jax.lax.stop_gradient(Dirichlet(x).sample(key))
    >>> torch.distributions.OneHotCategorical(logits=x).sample()  # x: f32[2, 3]
    OneHotCategorical.from_logits(x).sample(key)
    """
    return _drawn(call, cut=True)


@rule("torch.distributions.Distribution.rsample", signature="self, sample_shape=()", draws=True)
def rsample(call: Call) -> Value:
    """With the gradient of the parameters.

    >>> torch.distributions.Normal(x, y).rsample()  # x: f32[2, 3]; y: pos[3]
    Normal(x, y).sample(key)
    >>> torch.distributions.Uniform(x, x + 2.0).rsample((4,))  # x: f32[3]
    Uniform(x, x + 2.0).sample(key, (4,))
    >>> torch.distributions.Laplace(x, y).rsample()  # x: f32[2, 3]; y: pos[3]
    Laplace(x, y).sample(key)
    >>> torch.distributions.Exponential(x).rsample()  # x: pos[2, 3]
    Exponential(x).sample(key)
    >>> torch.distributions.MultivariateNormal(x, scale_tril=torch.eye(3)).rsample()  # x: f32[2, 3]
    MultivariateNormal(x, jnp.eye(3)).sample(key)
    """
    kind = call.kind("self")
    if isinstance(kind, Distribution) and kind.discrete:
        raise Unsupported("MIG302", f"{call.api}: {kind.cls or 'one of its classes'} has none in torch")
    return _drawn(call, cut=False)


@rule("torch.distributions.Distribution.log_prob", signature="self, value")
def log_prob(call: Call) -> Value:
    """The logarithm of the probability, or of its density.

    >>> torch.distributions.Normal(0.0, 1.0).log_prob(x)  # x: f32[2, 3]
    Normal(0.0, 1.0).log_prob(x)
    """
    return Value(call.make("{self}.log_prob({value})"), Tensor("float"))


@rule("torch.distributions.Distribution.entropy", signature="self")
def entropy(call: Call) -> Value:
    """In nats.

    >>> torch.distributions.Normal(x, y).entropy()  # x: f32[2, 3]; y: pos[3]
    Normal(x, y).entropy()
    """
    return Value(call.make("{self}.entropy()"), Tensor("float"))


_WITH_DIVERGENCE = ("Normal", "Categorical", "Bernoulli", "MultivariateNormal", "Independent")


@rule("torch.distributions.kl_divergence", signature="p, q")
def kl_divergence(call: Call) -> Value:
    """Of two distributions of one class.

    >>> torch.distributions.kl_divergence(torch.distributions.Normal(x, y), torch.distributions.Normal(0.0, 1.0))  # x: f32[2, 3]; y: pos[3]
    Normal(x, y).kl_divergence(Normal(0.0, 1.0))
    >>> torch.distributions.kl_divergence(torch.distributions.Categorical(logits=x), torch.distributions.Categorical(y))  # x: f32[2, 3]; y: pos[2, 3]
    Categorical.from_logits(x).kl_divergence(Categorical.from_probs(y))
    >>> torch.distributions.kl_divergence(torch.distributions.Bernoulli(logits=x), torch.distributions.Bernoulli(y))  # x: f32[2, 3]; y: unit[2, 3]
    Bernoulli.from_logits(x).kl_divergence(Bernoulli.from_probs(y))
    """  # noqa: E501
    kinds = [call.kind(name) for name in ("p", "q")]
    known = [kind for kind in kinds if isinstance(kind, Distribution) and kind.cls in _WITH_DIVERGENCE]
    if len(known) < 2 or known[0].cls != known[1].cls:
        raise Unsupported("MIG302", f"{call.api}: only of two {', '.join(_WITH_DIVERGENCE)}")
    return Value(call.make("{p}.kl_divergence({q})"), Tensor("float"))

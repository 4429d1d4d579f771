"""Random draws: each takes a key of its own, which the caller splits off."""

import libcst as cst

from migrate.known.kinds import Tensor
from migrate.rules.creation import FACTORY, dtype_kind
from migrate.rules.rule import Call, Rule, Value, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _dtype(call: Call) -> list[Expr]:
    return [call.node("dtype")] if call.has("dtype") else []


def _shaped(name: str, draw: str) -> Rule:
    def function(call: Call) -> Value:
        shape = call.shape("size")
        rank = nodes.length(shape)
        return Value(nodes.call(f"jax.random.{draw}", call.key(), shape, *_dtype(call)), Tensor("float", rank))

    doc = f"A standard {draw} distribution.\n\n    >>> torch.{name}(2, 3)\n    jax.random.{draw}(key, (2, 3))\n"
    return Rule(
        (f"torch.{name}",),
        signature(f"*size, generator=None, {FACTORY}"),
        function,
        False,
        "float",
        doc,
        "random",
        True,
    )


def _like(name: str, draw: str) -> Rule:
    def function(call: Call) -> Value:
        node = nodes.call(f"jax.random.{draw}", call.key(), call.make("{input}.shape"), *_dtype(call))
        return Value(node, Tensor("float", call.rank("input")))

    example = f">>> torch.{name}(x)  # x: f32[2, 3]\n    jax.random.{draw}(key, x.shape)"
    doc = f"The shape of another tensor, and float32 whatever its type.\n\n    {example}\n"
    return Rule((f"torch.{name}",), signature(f"input, *, {FACTORY}"), function, False, "float", doc, "random", True)


register(_shaped("randn", "normal"))
register(_shaped("rand", "uniform"))
register(_like("randn_like", "normal"))
register(_like("rand_like", "uniform"))


@rule("torch.randint", signature=f"low=0, high=None, size=None, *, generator=None, {FACTORY}", dtype="int", draws=True)
def randint(call: Call) -> Value:
    """With two positional arguments, the first is the (excluded) upper bound.

    >>> torch.randint(5, (2, 3))
    jax.random.randint(key, (2, 3), 0, 5)
    >>> torch.randint(1, 5, (4,))
    jax.random.randint(key, (4,), 1, 5)
    >>> torch.randint(0, 5, size=(4,), dtype=torch.int16)
    jax.random.randint(key, (4,), 0, 5, jnp.int16)
    >>> torch.randint(high=5, size=(4,))
    jax.random.randint(key, (4,), 0, 5)
    >>> torch.randint(5, (4,), dtype=torch.float32)
    jax.random.randint(key, (4,), 0, 5).astype(jnp.float32)
    """
    if "size" in call.bound and "high" in call.bound:
        low, high, size = call.node("low"), call.node("high"), call.node("size")
    else:
        low, high = nodes.expression("0"), call.node("low")
        size = call.node("size") if "size" in call.bound else call.node("high")
    kind = dtype_kind(call.node("dtype")) if call.has("dtype") else "int"
    made = nodes.call("jax.random.randint", call.key(), size, low, high, *(_dtype(call) if kind == "int" else []))
    cast = made if kind == "int" else call.make("{made}.astype({dtype})", made=made)  # randint draws integers alone
    return Value(cast, Tensor(kind, nodes.length(size)))


@rule("torch.randint_like", signature=f"input, low, high=None, *, {FACTORY}", dtype="", draws=True)
def randint_like(call: Call) -> Value:
    """Shape and type of another tensor; with one number, that is the (excluded) upper bound.

    >>> torch.randint_like(x, 5)  # x: i32[2, 3]
    jax.random.randint(key, x.shape, 0, 5).astype(x.dtype)
    >>> torch.randint_like(x, 1, 5, dtype=torch.int16)  # x: f32[2, 3]
    jax.random.randint(key, x.shape, 1, 5).astype(jnp.int16)
    """
    bounds = "{low}, {high}" if call.has("high") else "0, {low}"
    dtype = "{dtype}" if call.has("dtype") else "{input}.dtype"
    drawn = call.make(f"jax.random.randint({{key}}, {{input}}.shape, {bounds}).astype({dtype})", key=call.key())
    like = call.kind("input")
    kind = dtype_kind(call.node("dtype")) if call.has("dtype") else like.dtype if isinstance(like, Tensor) else ""
    return Value(drawn, Tensor(kind, call.rank("input")))


@rule(
    "torch.normal",
    signature="mean, std=1, size=None, *, generator=None, dtype=None, device=None, requires_grad=False",
    draws=True,
)
def normal(call: Call) -> Value:
    """Numbers with a size, or tensors that broadcast.

    >>> torch.normal(0.0, 0.5, size=(2, 3))
    0.5 * jax.random.normal(key, (2, 3))
    >>> torch.normal(x, 0.5)  # x: f32[2, 3]
    x + (0.5 * jax.random.normal(key, x.shape))
    >>> torch.normal(x, y)  # x: f32[2, 3]; y: pos[3]
    x + (y * jax.random.normal(key, jnp.broadcast_shapes(x.shape, y.shape)))
    """
    call.only("dtype", None)
    mean, std = call.kind("mean"), call.kind("std")
    if call.has("size"):
        shape = call.node("size")
    elif isinstance(mean, Tensor) and isinstance(std, Tensor):
        shape = call.make("jnp.broadcast_shapes({mean}.shape, {std}.shape)")
    else:
        shape = call.make("{mean}.shape" if isinstance(mean, Tensor) else "{std}.shape")
    made = nodes.call("jax.random.normal", call.key(), shape)
    if not any(nodes.is_literal(call.node("std"), one) for one in (1, 1.0)):
        made = nodes.expression("{std} * {made}", std=call.node("std"), made=made)
    if not any(nodes.is_literal(call.node("mean"), zero) for zero in (0, 0.0)):
        made = nodes.expression("{mean} + {made}", mean=call.node("mean"), made=made)
    return Value(made, Tensor("float"))


@rule("torch.poisson", signature="input, generator=None", draws=True)
def poisson(call: Call) -> Value:
    """The tensor holds the rates; torch gives floats.

    >>> torch.poisson(x)  # x: pos[2, 3]
    jax.random.poisson(key, x).astype(x.dtype)
    """
    return Value(call.make("jax.random.poisson({key}, {input}).astype({input}.dtype)", key=call.key()), Tensor("float"))


@rule("torch.nn.functional.gumbel_softmax", signature="logits, tau=1, hard=False, eps=1e-10, dim=-1", draws=True)
def gumbel_softmax(call: Call) -> Value:
    """With hard=True one-hot, with the gradient of the soft sample.

    >>> F.gumbel_softmax(x, tau=0.5)  # x: f32[2, 3]
    gumbel_softmax(key, x, tau=0.5)
    >>> F.gumbel_softmax(x, hard=True)  # x: f32[2, 3]
    gumbel_softmax(key, x, hard=True)
    """
    call.only("eps", 1e-10)
    call.snippet("gumbel_softmax")
    more = call.given("tau", "hard", dim="axis")
    return Value(nodes.call("gumbel_softmax", call.key(), call.node("logits"), **more), Tensor("float"))


def _dropped(name: str, unbatched: int) -> Rule:
    """unbatched: up to so many axes, torch takes the first one for the channels."""
    more = {"unbatched": cst.Integer(str(unbatched))} if unbatched else {}

    def function(call: Call) -> Value:
        call.snippet("drop_channels")
        given = [call.node("training")] if call.has("training") else []
        made = nodes.call("drop_channels", call.key(), call.node("input"), call.node("p"), *given, **more)
        return Value(made, Tensor("float", call.rank("input")))

    said = f", unbatched={unbatched}" if unbatched else ""
    doc = (
        "Whole channels go: axis 1, or axis 0 of an input without a batch.\n\n"
        f"    >>> F.{name}(x, 0.2)  # x: f32[2, 4, 3, 3, 2]\n    drop_channels(key, x, 0.2{said})\n"
    ).replace("3, 3, 2]", {"1": "3]", "2": "3, 3]", "3": "3, 3, 2]"}[name[7]])
    names, parameters = (f"torch.nn.functional.{name}",), signature("input, p=0.5, training=True, inplace=False")
    return Rule(names, parameters, function, False, "float", doc, "random", True)


for _name, _unbatched in (("dropout1d", 2), ("dropout2d", 0), ("dropout3d", 4)):
    register(_dropped(_name, _unbatched))


@rule("torch.randperm", signature=f"n, *, generator=None, {FACTORY}", dtype="int", draws=True)
def randperm(call: Call) -> Value:
    """Integers from 0 to n - 1 in random order.

    >>> torch.randperm(6)
    jax.random.permutation(key, 6)
    """
    node = nodes.call("jax.random.permutation", call.key(), call.node("n"))
    if call.has("dtype"):
        node = nodes.expression("{node}.astype({dtype})", node=node, dtype=call.node("dtype"))
    return Value(node, Tensor("int", 1))


@rule(
    "torch.multinomial",
    "Tensor.multinomial",
    signature="input, num_samples, replacement=False, *, generator=None",
    dtype="int",
    draws=True,
)
def multinomial(call: Call) -> Value:
    """Without replacement by default.

    >>> torch.multinomial(x, num_samples=1)  # x: unit[2, 3]
    multinomial(key, x, num_samples=1)
    >>> torch.multinomial(x, 2)  # x: unit[2, 3]
    multinomial_without_replacement(key, x, num_samples=2)
    """
    one = nodes.is_literal(call.node("num_samples"), 1)
    call.only("replacement", True, False)
    if not one and not (call.has("replacement") and call.literal("replacement")):
        call.snippet("multinomial_without_replacement")
        name = "multinomial_without_replacement"
        node = nodes.call(name, call.key(), call.node("input"), num_samples=call.node("num_samples"))
        return Value(node, Tensor("int"))
    call.snippet("multinomial")
    node = nodes.call("multinomial", call.key(), call.node("input"), num_samples=call.node("num_samples"))
    return Value(node, Tensor("int"))


@rule("torch.bernoulli", "Tensor.bernoulli", signature="input, *, generator=None", draws=True)
def bernoulli(call: Call) -> Value:
    """The tensor holds the probabilities; torch gives floats.

    >>> torch.bernoulli(x)  # x: unit[2, 3]
    jax.random.bernoulli(key, x).astype(x.dtype)
    """
    node = nodes.expression("jax.random.bernoulli({key}, {p}).astype({p}.dtype)", key=call.key(), p=call.node("input"))
    return Value(node, Tensor("float"))

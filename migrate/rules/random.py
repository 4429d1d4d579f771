"""Random draws: each takes a key of its own, which the caller splits off."""

import libcst as cst

from migrate import nodes
from migrate.kinds import Tensor
from migrate.nodes import Expr
from migrate.rules.creation import FACTORY
from migrate.rules.rule import Call, Rule, Value, register, rule, signature


def _dtype(call: Call) -> list[Expr]:
    return [call.node("dtype")] if call.has("dtype") else []


def _shaped(name: str, draw: str) -> Rule:
    def function(call: Call) -> Value:
        shape = call.shape("size")
        rank = len(shape.elements) if isinstance(shape, cst.Tuple) else -1
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
        kind = call.kind("input")
        node = nodes.call(f"jax.random.{draw}", call.key(), call.make("{input}.shape"), *_dtype(call))
        return Value(node, Tensor("float", kind.rank if isinstance(kind, Tensor) else -1))

    example = f">>> torch.{name}(x)  # x: f32[2, 3]\n    jax.random.{draw}(key, x.shape)"
    doc = f"The shape of another tensor, and float32 whatever its type.\n\n    {example}\n"
    return Rule((f"torch.{name}",), signature(f"input, *, {FACTORY}"), function, False, "float", doc, "random", True)


register(_shaped("randn", "normal"))
register(_shaped("rand", "uniform"))
register(_like("randn_like", "normal"))
register(_like("rand_like", "uniform"))


@rule("torch.randint", signature=f"low, high=None, size=None, *, generator=None, {FACTORY}", dtype="int", draws=True)
def randint(call: Call) -> Value:
    """With two positional arguments, the first is the (excluded) upper bound.

    >>> torch.randint(5, (2, 3))
    jax.random.randint(key, (2, 3), 0, 5)
    >>> torch.randint(1, 5, (4,))
    jax.random.randint(key, (4,), 1, 5)
    >>> torch.randint(0, 5, size=(4,), dtype=torch.int16)
    jax.random.randint(key, (4,), 0, 5, jnp.int16)
    """
    if "size" in call.bound and "high" in call.bound:
        low, high, size = call.node("low"), call.node("high"), call.node("size")
    else:
        low, high = nodes.expression("0"), call.node("low")
        size = call.node("size") if "size" in call.bound else call.node("high")
    rank = len(size.elements) if isinstance(size, cst.Tuple) else -1
    return Value(nodes.call("jax.random.randint", call.key(), size, low, high, *_dtype(call)), Tensor("int", rank))


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
    """Without replacement by default: only one sample, or replacement, is a plain draw.

    >>> torch.multinomial(x, num_samples=1)  # x: unit[2, 3]
    multinomial(key, x, num_samples=1)
    """
    if not call.has("replacement"):
        call.only("num_samples", 1)
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

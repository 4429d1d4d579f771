"""Methods that change their tensor and have no counterpart that makes a new one: the name is bound again."""

import libcst as cst

from migrate.known.kinds import Tensor
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_MADE = ("jnp.empty", "jnp.zeros", "jnp.ones")
_LIKE = tuple(f"{name}_like" for name in _MADE)


def _like(call: Call, node: Expr) -> Value:
    kind = call.kind("input")
    return Value(node, kind if isinstance(kind, Tensor) else Tensor())


@rule("Tensor.zero_", signature="input")
def zero(call: Call) -> Value:
    """Zeros of the same shape and type.

    >>> torch.empty(2, 3).zero_() + x  # x: f32[2, 3]
    jnp.zeros_like(jnp.empty((2, 3))) + x
    >>> torch.FloatTensor(2, 3).zero_() + x  # x: f32[2, 3]
    jnp.zeros((2, 3), jnp.float32) + x
    """
    made = call.node("input")
    if isinstance(made, cst.Call) and nodes.dotted(made.func) == "jnp.zeros":
        return _like(call, made)
    return _like(call, call.make("jnp.zeros_like({input})"))


@rule("Tensor.fill_", "torch.fill", signature="input, value")
def fill(call: Call) -> Value:
    """One value in the shape and type of the tensor.

    >>> torch.empty(2, 3).fill_(2) + x  # x: f32[2, 3]
    jnp.full_like(jnp.empty((2, 3)), 2) + x
    >>> torch.FloatTensor(2, 3).fill_(2) + x  # x: f32[2, 3]
    jnp.full((2, 3), 2, jnp.float32) + x
    """
    made = call.node("input")
    if isinstance(made, cst.Call) and nodes.dotted(made.func) == "jnp.zeros" and len(made.args) == 2:
        shape, dtype = (arg.value for arg in made.args)
        return _like(call, call.make("jnp.full({shape}, {value}, {dtype})", shape=shape, dtype=dtype))
    return _like(call, call.make("jnp.full_like({input}, {value})"))


@rule("Tensor.copy_", signature="input, other, non_blocking=False")
def copy(call: Call) -> Value:
    """The source takes shape and type of the tensor.

    >>> torch.empty(2, 3).copy_(x) * 2  # x: f32[3]
    jnp.full_like(jnp.empty((2, 3)), x) * 2
    """
    return _like(call, call.make("jnp.full_like({input}, {other})"))


def _shaped(call: Call, draw: str, keywords: dict[str, Expr]) -> Expr:
    """A draw in the shape and type of the tensor, which is not made first where it was only a place to write to."""
    made = call.node("input")
    if isinstance(made, cst.Call) and nodes.dotted(made.func) in _MADE and len(made.args) == 1:
        size = made.args[0].value
        shape = nodes.tuple_of([size]) if isinstance(size, cst.Integer) else size
        return nodes.call(f"jax.random.{draw}", call.key(), shape, **keywords)
    return nodes.call(f"jax.random.{draw}", call.key(), *_shape_and_dtype(made), **keywords)


def _shape_and_dtype(made: Expr) -> list[Expr]:
    """Those of an array, of what it was made like where it is only a place to write to."""
    match made:
        case cst.Call(func=func, args=[cst.Arg(value=shape, keyword=None), cst.Arg(value=dtype, keyword=None)]) if (
            nodes.dotted(func) in _MADE
        ):
            return [nodes.tuple_of([shape]) if isinstance(shape, cst.Integer) else shape, dtype]
        case cst.Call(func=func, args=[cst.Arg(value=like)]) if nodes.dotted(func) in _LIKE:
            return _shape_and_dtype(like)
    return [nodes.expression(f"{{x}}.{attribute}", x=made) for attribute in ("shape", "dtype")]


@rule("Tensor.uniform_", signature="input, from_=0, to=1, *, generator=None", draws=True)
def uniform(call: Call) -> Value:
    """Between 0 and 1 by default.

    >>> torch.empty(2, 3).uniform_(-1, 1)
    jax.random.uniform(key, (2, 3), minval=-1)
    >>> torch.zeros_like(x).uniform_()  # x: f32[2, 3]
    jax.random.uniform(key, x.shape, x.dtype)
    """
    return _like(call, _shaped(call, "uniform", call.given(from_="minval", to="maxval")))


@rule("Tensor.normal_", signature="input, mean=0, std=1, *, generator=None", draws=True)
def normal(call: Call) -> Value:
    """A standard normal distribution by default.

    >>> torch.empty(2, 3).normal_()
    jax.random.normal(key, (2, 3))
    >>> torch.empty(3).normal_(1.0, 0.5)
    1.0 + (0.5 * jax.random.normal(key, (3,)))
    """
    drawn = _shaped(call, "normal", {})
    if call.has("std"):
        drawn = nodes.expression("{std} * {drawn}", std=call.node("std"), drawn=drawn)
    if call.has("mean"):
        drawn = nodes.expression("{mean} + {drawn}", mean=call.node("mean"), drawn=drawn)
    return _like(call, drawn)


@rule("Tensor.exponential_", signature="input, lambd=1, *, generator=None", draws=True)
def exponential(call: Call) -> Value:
    """lambd is the rate.

    >>> torch.empty(2, 3).exponential_()
    jax.random.exponential(key, (2, 3))
    >>> torch.empty(4).exponential_(2.0)
    jax.random.exponential(key, (4,)) / 2.0
    """
    drawn = _shaped(call, "exponential", {})
    if call.has("lambd"):
        drawn = nodes.expression("{drawn} / {lambd}", drawn=drawn, lambd=call.node("lambd"))
    return _like(call, drawn)


@rule("Tensor.bernoulli_", signature="input, p=0.5, *, generator=None", draws=True)
def bernoulli(call: Call) -> Value:
    """Zeros and ones in the type of the tensor.

    >>> torch.empty(2, 3).bernoulli_(0.3)
    jax.random.bernoulli(key, 0.3, jnp.empty((2, 3)).shape).astype(jnp.empty((2, 3)).dtype)
    """
    return _like(
        call, call.make("jax.random.bernoulli({key}, {p}, {input}.shape).astype({input}.dtype)", key=call.key())
    )


@rule("Tensor.random_", signature="input, from_, to=None, *, generator=None", draws=True)
def random(call: Call) -> Value:
    """Whole numbers below the last argument; without arguments the range depends on the type, which is refused.

    >>> x.clone().random_(5)  # x: i32[2, 3]
    jax.random.randint(key, x.shape, 0, 5).astype(x.dtype)
    """
    bounds = "{from_}, {to}" if call.has("to") else "0, {from_}"
    drawn = call.make(f"jax.random.randint({{key}}, {{input}}.shape, {bounds}).astype({{input}}.dtype)", key=call.key())
    return _like(call, drawn)


@rule("Tensor.fill_diagonal_", signature="input, fill_value, wrap=False")
def fill_diagonal(call: Call) -> Value:
    """Of a matrix.

    >>> torch.zeros(3, 3).fill_diagonal_(2.0) + x  # x: f32[3, 3]
    jnp.fill_diagonal(jnp.zeros((3, 3)), 2.0, inplace=False) + x
    """
    call.only("wrap", False)
    return _like(call, call.make("jnp.fill_diagonal({input}, {fill_value}, inplace=False)"))

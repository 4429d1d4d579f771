"""The interpreter of jaxprs: both kinds of numbers agree, and what float64 computes is close to them."""

from __future__ import annotations

from fractions import Fraction

import flax.linen as nn
import flint
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import optax
import pytest

from parity.oracle import Arb, Mpmath, Undecided, Unknown, exactly
from parity.oracle.numbers import agree

RANDOM = np.random.default_rng(0)
# Float32 against the exact value of the same program: some dozens of roundings of 2^-24 each; a wrong primitive is off
# by the size of the result.
CLOSE = 3e-6


def draw(*shape: int) -> jax.Array:
    return jnp.asarray(RANDOM.normal(size=shape), jnp.float32)


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def layer_norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + bias


def convolution(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel, (2, 1), ((1, 2), (0, 1)), rhs_dilation=(1, 2), feature_group_count=2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip


def recurrent(kernel, inputs):
    def step(carry, x):
        return jnp.tanh(carry @ kernel + x), carry.sum()

    return jax.lax.scan(step, jnp.zeros(3), inputs)[1].sum()


def adamw_step(params, x, y):
    optimizer = optax.adamw(1e-3)
    loss, gradients = jax.value_and_grad(lambda p: ((jax.nn.relu(x @ p) - y) ** 2).mean())(params)
    updates, state = optimizer.update(gradients, optimizer.init(params), params)
    return loss, optax.apply_updates(params, updates), state


def squared(function):
    return lambda *args: (function(*args) ** 2).sum()


def many(x):
    return (
        jnp.log1p(jnp.abs(x)), x**3, jnp.floor(x), jnp.sign(x), jnp.clip(x, -1, 1), jnp.linalg.norm(x), jnp.var(x),
        jax.nn.softplus(x), jax.scipy.special.erf(x), jnp.round(x), x[::2], jnp.pad(x, 1), jnp.flip(x),
        jax.nn.logsumexp(x), jnp.power(jnp.abs(x), 1.5), x % 0.7, x.at[jnp.array([1, 1])].add(2.0),
        x.at[2].set(0.0), jnp.prod(x), jnp.min(x), jnp.where(x > 0, x, 0.0), jnp.arctan2(x, 1.0), jnp.cbrt(x),
        jnp.concatenate([x, x]), (x > 0).astype(jnp.float32), jnp.cumsum(x), jnp.exp2(x), jnp.sin(x),
    )  # fmt: skip


def ordered(x):
    return jnp.sort(x), jnp.argsort(x), jax.lax.top_k(x, 3), jnp.argmax(x, -1), jnp.argmin(x, -1), jnp.median(x)


def pooled(x):
    """Windows that overlap and reach into the padding; ties, of which the first is taken."""
    most = nn.max_pool(jnp.round(x), (3, 2), (2, 1), "SAME")
    mean = nn.avg_pool(x, (2, 2), (1, 2), "SAME")
    least = jax.lax.reduce_window(x, jnp.inf, jax.lax.min, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return (most**2).sum() + (mean**3).sum() + (least**2).sum()


PROGRAMS = {
    "pooling": (jax.value_and_grad(pooled), (draw(2, 5, 6, 2) * 2,)),
    "cross_entropy": (jax.value_and_grad(cross_entropy), (draw(4, 5), jnp.array([0, 1, 2, 4]))),
    "gelu": (jax.value_and_grad(lambda x: jax.nn.gelu(x, approximate=False).sum()), (draw(7),)),
    "layer_norm": (jax.value_and_grad(squared(layer_norm), (0, 1, 2)), (draw(3, 8), draw(8), draw(8))),
    "convolution": (jax.value_and_grad(squared(convolution), (0, 1)), (draw(2, 5, 5, 4), draw(3, 2, 2, 6))),
    "transposed": (
        jax.value_and_grad(squared(lambda x, k: jax.lax.conv_transpose(x, k, (2, 2), "SAME")), (0, 1)),
        (draw(1, 3, 3, 2), draw(3, 3, 2, 2)),
    ),
    "attention": (
        jax.value_and_grad(squared(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)), (0, 1, 2)),
        (draw(1, 4, 2, 3), draw(1, 4, 2, 3), draw(1, 4, 2, 3)),
    ),
    "embedding": (jax.value_and_grad(squared(lambda table, i: table[i])), (draw(6, 3), jnp.array([1, 1, 5]))),
    "scan": (jax.value_and_grad(recurrent), (draw(3, 3), draw(4, 3))),
    "while": (lambda x: jax.lax.while_loop(lambda v: v.sum() < 10, lambda v: v * 2, x), (jnp.ones(2),)),
    "cond": (lambda x: jax.lax.cond(x.sum() > 0, jnp.exp, jnp.cos, x), (jnp.ones(2),)),
    "adamw": (adamw_step, (draw(4, 3), draw(5, 4), draw(5, 3))),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.exp(y)))(x).sum()), (draw(3),)),
    "dropout": (
        lambda x, key: jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0.0),
        (draw(9), jax.random.key(0)),
    ),
    "many": (many, (draw(9),)),
    "ordered": (ordered, (draw(2, 7),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_kinds_of_numbers_agree_and_float32_is_near(name):
    function, args = PROGRAMS[name]
    ball, exact = Arb(), Mpmath()
    certified = exactly(function, *args, numbers=ball)
    reference = exactly(function, *args, numbers=exact)
    leaves = zip(*map(jax.tree.leaves, (certified, reference, function(*args))), strict=True)
    for a, m, computed in leaves:
        if jnp.issubdtype(computed.dtype, jnp.integer):
            assert np.array_equal(np.asarray(m), np.asarray(computed)) and np.array_equal(np.asarray(a), np.asarray(m))
            continue
        assert agree(ball, a, exact, m) < 1e-15
        assert ball.radius(a) < 1e-40
        values = exact.floats(m)
        assert np.abs(values - np.asarray(computed)).max(initial=0) <= CLOSE * max(np.abs(values).max(initial=0), 1e-30)


def test_the_sum_that_float64_loses_is_kept():
    args = (jnp.asarray([1e8, 1.0, -1e8], jnp.float32),)
    for numbers in (Mpmath(), Arb()):
        assert numbers.floats(exactly(jnp.sum, *args, numbers=numbers)) == 1.0


def test_a_product_is_exact():
    a, b = RANDOM.normal(size=(2, 5)).astype(np.float32), RANDOM.normal(size=(5, 3)).astype(np.float32)
    numbers = Mpmath(500)
    found = exactly(jnp.matmul, a, b, numbers=numbers)
    for i, j in np.ndindex(2, 3):
        exact = sum(Fraction(float(a[i, k])) * Fraction(float(b[k, j])) for k in range(5))
        with mpmath.workprec(500):
            assert found[i, j] == mpmath.mpf(exact.numerator) / exact.denominator


def test_the_program_is_evaluated_with_its_own_literals():
    """Float32's tenth is not a tenth."""
    numbers = Mpmath()
    found = numbers.floats(exactly(lambda x: x * 0.1, jnp.float32(1), numbers=numbers))
    assert found == float(np.float32(0.1))


def test_a_comparison_that_a_ball_leaves_open_is_an_error():
    numbers = Arb()
    args = np.array([numbers.number(2.0).sqrt() ** 2], object)
    with pytest.raises(Undecided):
        numbers.less(args[0], numbers.number(2.0))
    assert not numbers.less(flint.arb("nan"), numbers.number(2.0))


def test_what_a_maximum_took_is_equal_to_it():
    """Its gradient asks where the maximum was: a ball is never equal to another, but to itself."""
    x = draw(6)
    numbers = Arb()
    found = exactly(jax.grad(lambda x: jnp.max(jnp.sin(x))), x, numbers=numbers)
    expected = np.where(np.arange(6) == np.argmax(np.sin(x)), np.cos(x), 0.0)
    assert numbers.floats(found) == pytest.approx(expected, rel=1e-6)


def test_a_primitive_that_is_not_known_is_named():
    with pytest.raises(Unknown, match="igamma"):
        exactly(jax.scipy.special.gammainc, jnp.float32(1), jnp.float32(2))


def test_the_error_is_taken_before_it_is_rounded():
    numbers = Mpmath()
    exact = exactly(jnp.exp, jnp.ones(1, jnp.float32), numbers=numbers)
    with mpmath.workprec(200):
        expected = float(mpmath.mpf(float(np.float64(np.e))) - mpmath.e)
    assert numbers.error(np.array([np.e]), exact) == pytest.approx(expected, rel=1e-9)

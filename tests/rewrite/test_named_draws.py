"""Initial values that several layers draw alike: a function with a name draws them, and draws what the lambda did."""

from __future__ import annotations

import jax
import libcst as cst
import pytest

from migrate.named_draws import with_named_draws

UNIFORM = "lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -bound, 2 * bound)"
NORMAL = "lambda key, shape, dtype=jnp.float32: 1.0 + 0.02 * jax.random.normal(key, shape, dtype)"
PAIR = "a = nn.Dense(3, kernel_init={0})\nb = nn.Dense(4, kernel_init={0})\n"


def named(text: str) -> tuple[str, list[str]]:
    body, snippets = with_named_draws(list(cst.parse_module(text).body))
    return cst.Module(body).code, snippets


@pytest.mark.parametrize(
    ("made", "name", "call"),
    [
        (UNIFORM, "uniform_between", "uniform_between(-bound, 2 * bound)"),
        (NORMAL, "normal_around", "normal_around(1.0, 0.02)"),
    ],
)
def test_draws_that_several_layers_share_have_a_name(made: str, name: str, call: str) -> None:
    assert named(PAIR.format(made)) == (PAIR.format(call), [name])


@pytest.mark.parametrize(
    "text",
    [
        f"a = nn.Dense(3, kernel_init={UNIFORM})\nb = nn.Dense(4, kernel_init={NORMAL})\n",
        PAIR.format(UNIFORM) + "uniform_between = 3\n",
        PAIR.format(UNIFORM.replace("2 * bound", "shape[0]")),
        PAIR.format(NORMAL.replace("jnp.float32", "jnp.float16")),
        PAIR.format(NORMAL.replace("jax.random.normal", "jax.random.gumbel")),
    ],
    ids=["one of a sort", "a name that is taken", "of the shape", "another type", "another draw"],
)
def test_other_lambdas_stay(text: str) -> None:
    assert named(text) == (text, [])


@pytest.mark.parametrize("made", [UNIFORM, NORMAL])
def test_the_same_is_drawn(made: str) -> None:
    import jax.numpy as jnp

    from migrate.snippets.normal_around import normal_around
    from migrate.snippets.uniform_between import uniform_between

    text, _ = named(PAIR.format(made))
    call = text.splitlines()[0].partition("kernel_init=")[2].removesuffix(")")
    known = {"jax": jax, "jnp": jnp, "bound": 0.5, "uniform_between": uniform_between, "normal_around": normal_around}
    key = jax.random.key(3)
    assert (eval(call, known)(key, (5, 4)) == eval(made, known)(key, (5, 4))).all()

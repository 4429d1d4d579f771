"""Keywords that touch a parenthesis."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import clean

HEAD = "import torch\n\nx = torch.ones(3)\ny = torch.ones(3)\n"


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("assert(x.equal(y))", "assert jnp.array_equal(x, y)"),
        ("def f(a):\n    return(a.unsqueeze(0))\nf(x)", "    return jnp.expand_dims(a, 0)"),
        ("def f(a):\n    return\nf(x)", "    return\n"),
        ("if(x.equal(y)):\n    print(1)", "if jnp.array_equal(x, y):"),
        ("while(not(x.equal(y))):\n    print(1)", "while (not jnp.array_equal(x, y)):"),
        ("z = 1 if(x.equal(y))else(x.unsqueeze(0))", "z = 1 if jnp.array_equal(x, y) else jnp.expand_dims(x, 0)"),
        ("z = (x.equal(y))and(y.equal(x))or(x.equal(x))", "jnp.array_equal(x, y) and jnp.array_equal(y, x) or "),
        ("for row in(x.unsqueeze(0)):\n    print(row)", "for row in jnp.expand_dims(x, 0):"),
        ("z = [1 for row in(x.unsqueeze(0))if(row.equal(x))]", "in jnp.expand_dims(x, 0) if jnp.array_equal(row, x)]"),
    ],
)
def test_what_comes_into_the_place_of_parentheses_is_kept_apart(written: str, made: str) -> None:
    assert made in clean(HEAD + written + "\n").text


def test_a_file_that_nothing_is_rewritten_in_keeps_its_bytes() -> None:
    text = "x = [1]\nassert(x)\ny = not(x)if(x)else(None)\n"
    assert clean(text).text == text

"""Each example of each rule: its text, and its values and gradients in both frameworks."""

from __future__ import annotations

import ast
import re

import jax
import numpy as np
import pytest
import torch

from migrate.rules.rule import Rule
from tests.conformance import run_example
from tests.conformance.compare import flat
from tests.conformance.examples import Example, all_examples, of, parse_input, rules
from tests.conformance.rewritten import clean, executed, returned
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov

EXAMPLES = all_examples()
COMPUTED = [example for example in EXAMPLES if not example.draws]
# Arguments are a matter of semantics, which float64 decides; how a rule rounds, its first example shows.
FIRST = {example.rule: str(example) for example in reversed(COMPUTED)}
PRECISIONS = [(example, "float64") for example in COMPUTED] + [
    (example, "float32") for example in COMPUTED if FIRST[example.rule] == str(example)
]
DRAWN = [example for example in EXAMPLES if example.draws]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.names[0])
def test_every_rule_has_an_example(rule: Rule) -> None:
    assert of(rule)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_text(example: Example) -> None:
    expected = re.sub(r"\bkey\b", 'self.make_rng("sample")', example.expected)
    found = returned(clean(example.source()).text)
    if "\n" in found:  # too long for one line
        found, expected = (ast.unparse(ast.parse(text)) for text in (found, expected))
    assert found == expected


@pytest.mark.filterwarnings("ignore:Implicit dimension choice for")  # of a softmax without `dim`, which old code has
@pytest.mark.parametrize(("example", "precision"), PRECISIONS, ids=str, indirect=["precision"])
def test_values_and_gradients(example: Example, precision: str, request: pytest.FixtureRequest) -> None:
    if precision == "float32" and example.text in ("x.double()", "x.cdouble()"):
        reason = "without jax_enable_x64 JAX has no float64: it warns and gives float32"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    found = run_example.check(example, clean(example.source()).text, precision, eager=precision == "float64")
    assert not found, "\n".join(difference.what for difference in found)


@pytest.mark.parametrize("example", DRAWN, ids=str)
def test_draws(example: Example) -> None:
    """Shape, type, the mean of each element and the distribution of all of them together."""
    written = executed(example.source())["M"]()
    module = executed(clean(example.source()).text)["M"]()
    module = module.clone(training=True) if hasattr(module, "training") else module
    values = example.values(1.0, "float32")
    torch.manual_seed(0)
    one = [flat(written(*map(torch.tensor, values.values())))[0] for _ in range(DRAWS)]
    keys = jax.random.split(jax.random.key(0), DRAWS)
    other = jax.jit(jax.vmap(lambda key: module.apply({}, *values.values(), rngs={"sample": key})))(keys)
    ours, theirs = np.asarray(other), np.stack(one)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype or (ours.dtype.kind, theirs.dtype.kind) == ("i", "i")
    means, spread = ours.mean(0) - theirs.mean(0), (ours.var(0) + theirs.var(0)) / DRAWS
    # 5.5 standard errors: once in 26 million elements by chance, and the seeds are fixed
    assert (np.abs(means) <= 5.5 * np.sqrt(spread) + 1e-7).all()
    assert kolmogorov_smirnov(np.round(ours, 4), np.round(theirs, 4)) <= SAME_DISTRIBUTION


DRAWS = 600


def test_inputs_that_are_not_understood_are_named() -> None:
    with pytest.raises(ValueError, match="does not describe an input"):
        parse_input("x: 3")
    with pytest.raises(ValueError, match="no such type"):
        parse_input("x: f16[3]")

"""A test of the tests: mistakes of the kind that ports are known for, put into a rule, a layer or an optimizer one at a
time, must each be noticed by the conformance tests' own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from migrate import snippet_files
from migrate.layers.layer import Layer, Sample, Weight
from migrate.layers.moves import Permute
from migrate.layers.table import TABLE
from migrate.optimizers import OPTIMIZERS
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Call
from tests.conformance import rewritten, run_example, test_optimizers
from tests.conformance.examples import Example, of
from tests.conformance.precision import floats_are
from tests.conformance.run_layer import Case, Pair, example_inputs, sample_source

# rule: an example of it, and what a mistaken rule would write instead
MISTAKEN_RULES = {
    "softmax over the wrong axis": ("F.softmax(x, dim=1)", "nn.softmax(x, axis=0)"),
    "the tanh approximation of GELU": ("F.gelu(x)", "nn.gelu(x)"),
    "biased variance": ("torch.var(x, dim=1)", "x.var(axis=1)"),
    "kept axis": ("x.mean(dim=1, keepdim=True)", "x.mean(axis=1)"),
    "a weight that is not transposed": ("F.linear(x, y)", "x @ y.reshape(3, 4)"),
    "the default indexing of numpy": ('torch.meshgrid(x, y, indexing="ij")', 'jnp.meshgrid(x, y, indexing="xy")'),
    "floor for truncation": ("torch.trunc(x)", "jnp.floor(x)"),
    "the sign of a remainder": ("torch.remainder(x, y)", "jnp.fmod(x, y)"),
    "sum for mean": ("F.mse_loss(x, y)", "jnp.square(x - y).sum()"),
    "a gradient that is not cut": ("x.detach()", "x"),
    "repeat for tile": ("x.repeat(2, 1)", "jnp.repeat(x, 2, axis=0)"),
    "an epsilon": ("F.layer_norm(x, (4,))", "layer_norm(x, (4,), eps=1e-6)"),
    "a scale left out": (
        "F.scaled_dot_product_attention(x, y, x, z, scale=0.3)",
        "scaled_dot_product_attention(x, y, x, z)",
    ),
    "huber without delta": ("F.smooth_l1_loss(x, y, beta=0.5)", "optax.huber_loss(x, y, delta=0.5).mean()"),
    "integers for floats": ("torch.div(x, y)", "x // y"),
}


@pytest.fixture
def float64() -> Iterator[None]:
    with floats_are("float64"):
        yield


def find(text: str) -> Example:
    return next(example for rule in RULES.values() for example in of(rule) if example.text == text)


@pytest.mark.parametrize("mistake", MISTAKEN_RULES)
def test_a_mistaken_rule_is_noticed(mistake: str, float64: None) -> None:
    text, wrong = MISTAKEN_RULES[mistake]
    example = find(text)
    right = rewritten.clean(example.source()).text
    assert not run_example.check(example, right, "float64", eager=False)
    mistaken = right.replace(f"return {example.expected}", f"return {wrong}")
    assert mistaken != right
    try:
        found = run_example.check(example, mistaken, "float64", eager=False)
    except (TypeError, ValueError):  # noticed without looking at a number
        return
    assert found and max(difference.excess for difference in found) > 100


def test_a_mistaken_rule_changes_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules in use are those that the examples are converted by."""

    def wrong(call: Call) -> object:
        return call.make("jnp.exp({input})")

    for name in ("torch.log", "Tensor.log"):
        monkeypatch.setitem(RULES, name, replace(RULES[name], function=wrong))
    example = find("torch.log(x)")
    assert rewritten.returned(rewritten.fresh(example.source()).text) == "jnp.exp(x)" != example.expected


def changed(**changes: object) -> Callable[[Layer], Layer]:
    return lambda layer: replace(layer, **changes)  # type: ignore[arg-type]


def in_template(old: str, new: str) -> Callable[[Layer], Layer]:
    def change(layer: Layer) -> Layer:
        assert old in layer.template
        return replace(layer, template=layer.template.replace(old, new))

    return change


def moved(index: int, *moves: Permute) -> Callable[[Layer], Layer]:
    """A layer with other moves of one weight."""

    def change(layer: Layer) -> Layer:
        weights: list[Weight] = list(layer.weights)
        weights[index] = replace(weights[index], moves=moves)
        return replace(layer, weights=tuple(weights))

    return change


def renamed(index: int, leaf: str, other: int, other_leaf: str) -> Callable[[Layer], Layer]:
    def change(layer: Layer) -> Layer:
        weights: list[Weight] = list(layer.weights)
        weights[index], weights[other] = replace(weights[index], leaf=leaf), replace(weights[other], leaf=other_leaf)
        return replace(layer, weights=tuple(weights))

    return change


SQUARE = Sample("nn.Linear(5, 5)", (2, 5))
MISTAKEN_LAYERS: dict[str, tuple[str, Sample, Callable[[Layer], Layer]]] = {
    "a square kernel that is not transposed": ("torch.nn.Linear", SQUARE, moved(0)),
    "height and width exchanged": (
        "torch.nn.Conv2d",
        Sample("nn.Conv2d(2, 2, 3)", (1, 2, 5, 6)),
        moved(0, Permute((3, 2, 1, 0))),
    ),
    "inputs and outputs exchanged": (
        "torch.nn.Conv2d",
        Sample("nn.Conv2d(3, 3, 2)", (1, 3, 5, 6)),
        moved(0, Permute((2, 3, 0, 1))),
    ),
    "no padding": (
        "torch.nn.Conv2d",
        Sample("nn.Conv2d(3, 4, 3, stride=2, padding=1)", (1, 3, 6, 6)),
        in_template("padding={padding:padding2}", 'padding="SAME"'),
    ),
    "Flax's epsilon": ("torch.nn.LayerNorm", Sample("nn.LayerNorm(6)", (4, 6)), in_template("epsilon={eps}, ", "")),
    "scale and bias exchanged": (
        "torch.nn.LayerNorm",
        Sample("nn.LayerNorm(6)", (4, 6)),
        renamed(0, "bias", 1, "scale"),
    ),
    "mean and variance exchanged": (
        "torch.nn.BatchNorm2d",
        Sample("nn.BatchNorm2d(3)", (4, 3, 2, 2)),
        renamed(2, "var", 3, "mean"),
    ),
    "Flax's momentum": (
        "torch.nn.BatchNorm2d",
        Sample("nn.BatchNorm2d(3)", (4, 3, 2, 2)),
        in_template("momentum={momentum?0.1}", "momentum=0.9"),
    ),
    "a stride of 1": (
        "torch.nn.MaxPool2d",
        Sample("nn.MaxPool2d(2)", (1, 2, 4, 4)),
        in_template("strides={stride:stride2}, ", ""),
    ),
    "padding that is not counted": (
        "torch.nn.AvgPool2d",
        Sample("nn.AvgPool2d(3, 1, 1)", (1, 2, 4, 4)),
        in_template("{count_include_pad?True}", "False"),
    ),
    "a kernel that is flipped": (
        "torch.nn.ConvTranspose2d",
        Sample("nn.ConvTranspose2d(3, 3, 2)", (1, 3, 4, 4)),
        in_template("transpose_kernel=True", "transpose_kernel=False"),
    ),
    "the approximation of GELU": ("torch.nn.GELU", Sample("nn.GELU()", (3, 4)), changed(template="nn.gelu")),
}


def layer_problems(case: Case) -> list[str]:
    """What the conformance test of a layer would say."""
    written = sample_source(case.sample)
    pair = Pair(written, rewritten.fresh(written), "float64")
    inputs = example_inputs(case.sample, "float64")
    modes = (False, True) if case.layer.trains else (False,)
    return [d.what for train in modes for d in pair.differing(inputs, train)] + pair.tree_problems(inputs)


@pytest.mark.parametrize("mistake", MISTAKEN_LAYERS)
def test_a_mistaken_layer_is_noticed(mistake: str, float64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    name, sample, change = MISTAKEN_LAYERS[mistake]
    assert not layer_problems(Case(TABLE[name], sample))
    monkeypatch.setitem(TABLE, name, change(TABLE[name]))
    try:
        assert layer_problems(Case(TABLE[name], sample))
    except (TypeError, ValueError):  # shapes that do not fit: noticed as well
        return


MISTAKEN_SNIPPETS = [
    # the biased variance in the running statistics
    ("BatchNorm", Sample("nn.BatchNorm2d(3)", (4, 3, 2, 2)), "* n / (n - 1)", ""),
    (
        "BatchNorm",
        Sample("nn.BatchNorm2d(3)", (4, 3, 2, 2)),
        "(1 - m) * running_mean.value + m *",
        "m * running_mean.value + (1 - m) *",
    ),
    (
        "BatchNorm",
        Sample("nn.BatchNorm2d(3)", (4, 3, 2, 2)),
        "jax.lax.rsqrt(var + self.epsilon)",
        "1 / (jnp.sqrt(var) + self.epsilon)",
    ),
    ("LSTM", Sample("nn.LSTM(3, 4)", (5, 2, 3)), "i, f, g, o = jnp.split", "i, f, o, g = jnp.split"),
    # the bias of the new state outside the product with the reset gate
    (
        "GRU",
        Sample("nn.GRU(3, 4)", (5, 2, 3)),
        "jnp.tanh(n + nn.sigmoid(r + hr) * hn)",
        "jnp.tanh(n + nn.sigmoid(r + hr) * (hn - bias_hh[-4:]) + bias_hh[-4:])",
    ),
    # the final state of the backward direction taken at the wrong end
    ("RNN", Sample("nn.RNN(3, 4, bidirectional=True)", (5, 2, 3)), 'reverse=suffix == "_reverse"', "reverse=False"),
]


@pytest.mark.parametrize(("name", "sample", "right", "wrong"), MISTAKEN_SNIPPETS)
def test_a_mistaken_snippet_is_noticed(name: str, sample: Sample, right: str, wrong: str, float64: None) -> None:
    text = (snippet_files.FOLDER / f"{name}.py").read_text()
    assert right in text
    written = sample_source(sample)
    made = rewritten.fresh(written)
    mistaken = replace(made, text=made.text.replace(right, wrong))
    inputs = example_inputs(sample, "float64")
    assert not Pair(written, made, "float64").differing(inputs, True)
    assert Pair(written, mistaken, "float64").differing(inputs, True)


@pytest.mark.parametrize(
    ("optimizer", "old", "new"),
    [
        ("RMSprop: lr=0.01, alpha=0.9, eps=1e-3", "eps_in_sqrt=False", "eps_in_sqrt=True"),
        ("Adam: lr=0.01, betas=(0.5, 0.9), eps=1e-3", "{eps?1e-8}", "1e-8"),
        ("AdamW: 0.02, (0.8, 0.99), 1e-4, 0.2", "{weight_decay?1e-4}", "1e-4"),
        ("SGD: lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05", "{nesterov?False}", "False"),
        ("Adagrad", "eps=1e-20", "eps=1e-7"),
    ],
)
def test_a_mistaken_optimizer_is_noticed(
    optimizer: str, old: str, new: str, float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = test_optimizers.optimizers(optimizer)
    entry = OPTIMIZERS[f"torch.optim.{optimizer.partition(':')[0]}"]
    assert old in entry.template
    monkeypatch.setattr(test_optimizers.rewritten, "clean", rewritten.fresh)
    monkeypatch.setitem(OPTIMIZERS, entry.torch, replace(entry, template=entry.template.replace(old, new)))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_optimizers.test_twenty_steps(case, None)

"""Each sample of each layer: output, gradients and state, in eval and train mode; the tree of weights; neighbours."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.layers.layer import Layout
from migrate.layers.table import TABLE
from tests.conformance import rewritten
from tests.conformance.compare import differences
from tests.conformance.run_layer import Case, Inputs, Pair, cases, example_inputs, sample_source, source
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov

CASES = cases()
# Dropout with 0 < p < 1 draws: its statistics are compared instead. (With 1 it shows where it lies between layers.)
DRAWING = [
    case for case in CASES if case.layer.draws and not case.layer.trains_if and "p=0.0" not in case.sample.constructor
]
COMPUTING = [case for case in CASES if case not in DRAWING]
# Arguments are a matter of semantics, which float64 decides; how a layer rounds, its first sample shows. (One that
# waits for its first input, or wraps another one, is like that.)
FIRST = {case.layer.torch: str(case) for case in reversed(CASES) if not (case.layer.waits or case.layer.wraps)}
PRECISIONS = [(case, "float64") for case in CASES] + [
    (case, "float32") for case in CASES if FIRST.get(case.layer.torch) == str(case)
]


@pytest.mark.parametrize("name", TABLE)
def test_every_layer_has_a_sample(name: str) -> None:
    assert TABLE[name].samples


def first_of(case: Case, precision: str) -> Inputs | None:
    """The first input of a layer that waits for it."""
    return example_inputs(case.sample, precision) if case.layer.waits else None


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # torch says it is slow
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")  # both forms are in use
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True, but")  # of nn.Transformer, which cannot say otherwise
@pytest.mark.filterwarnings("ignore:Implicit dimension choice for")  # of a softmax without `dim`, which old code has
@pytest.mark.parametrize(("case", "precision"), PRECISIONS, ids=str, indirect=["precision"])
def test_output_gradients_and_state(case: Case, precision: str) -> None:
    written = sample_source(case.sample)
    pair = Pair(written, rewritten.clean(written), precision, first_of(case, precision))
    found = []
    # The gradient of a softmax of large scores all but vanishes: what float32 leaves of it is rounding, and what
    # float64 leaves of that of one end of the edges, which cancels in the softmax but for the bend of the activation.
    saturates = (precision == "float32" and "MultiheadAttention" in pair.made.text) or "GATv2Conv" in pair.made.text
    for scale in (1.0,) if saturates else (1.0, 5.0):
        inputs = example_inputs(case.sample, precision, scale)
        for train in (False, True) if case.layer.trains and case not in DRAWING else (False,):
            found += [f"train={train}: {difference.what}" for difference in pair.differing(inputs, train)]
    if precision == "float64":
        inputs = example_inputs(case.sample, precision)
        eager, _ = pair.jax_apply(pair.variables, {name: jnp.asarray(value) for name, value in inputs.items()}, False)
        wanted = pair.torch_step(inputs, False)["output"]
        found += [f"eager: {d.what}" for d in differences(wanted, eager, factor=pair.factor("output"))]
        found += pair.tree_problems(inputs)
    assert not found, "\n".join(found)


def _in_a_row(case: Case) -> bool:
    return case.sample.call == "x" and case.layer.returns == "tensor" and not (case.layer.waits or case.layer.wraps)


def neighbours(case: Case) -> str:
    """The layer between others that want the same layout."""
    if case.layer.layout is Layout.LAST:
        dimensions = len(case.sample.shape) - 2
        channels = case.sample.shape[1]
        return f"nn.Sequential(nn.Conv{dimensions}d({channels}, {channels}, 1), {case.sample.constructor}, nn.ReLU())"
    if case.sample.high:
        return f"nn.Sequential({case.sample.constructor}, nn.Tanh())"
    return f"nn.Sequential(nn.LeakyReLU(0.5), {case.sample.constructor}, nn.Tanh())"


# One sample of each layer that takes and gives one tensor: the others differ in what the first test compares.
IN_A_ROW = list({case.layer.torch: case for case in reversed(COMPUTING) if _in_a_row(case)}.values())


@pytest.mark.parametrize("case", IN_A_ROW, ids=str)
def test_in_a_sequential(case: Case, float64: None) -> None:
    written = source(neighbours(case))
    made = rewritten.clean(written)
    pair = Pair(written, made, "float64")
    found = [d.what for d in pair.differing(example_inputs(case.sample, "float64"), case.layer.trains)]
    assert not found, "\n".join(found)
    if case.layer.layout is Layout.LAST:
        assert len(re.findall(r"\.transpose|moveaxis", made.text.partition("class M(")[2])) == 2, made.text


@pytest.mark.parametrize("case", [case for case in DRAWING if "Alpha" in str(case) or "RReLU" in str(case)], ids=str)
def test_draws_per_element(case: Case) -> None:
    """The distribution of what is drawn; and whether whole channels are drawn alike."""
    x = np.full((40, 30, 5), -1, np.float32)
    torch.manual_seed(0)
    theirs = rewritten.executed(source(case.sample.constructor))["M"]().train()(torch.tensor(x)).numpy()
    module = rewritten.executed(rewritten.clean(source(case.sample.constructor)).text)["M"](training=True)
    ours = np.asarray(module.apply({}, jnp.asarray(x), rngs={"dropout": jax.random.key(0)}))
    whole = [(np.ptp(values, axis=-1) == 0).all() for values in (ours, theirs)]
    assert whole[0] == whole[1]
    one, other = (values[:, :, 0] if whole[0] else values for values in (ours, theirs))
    if len(np.unique(theirs)) == 2:
        np.testing.assert_allclose(np.unique(ours), np.unique(theirs), rtol=1e-6)
        # five standard errors of the difference of two means of that many draws
        assert abs(one.mean() - other.mean()) <= 5 * np.sqrt(2 * other.var() / other.size)
    else:
        assert kolmogorov_smirnov(one, other) <= SAME_DISTRIBUTION


def _dropped(layer: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Ones after a dropout in train mode: in JAX and in torch."""
    x = np.ones(shape, np.float32)
    torch.manual_seed(0)
    theirs = rewritten.executed(source(layer))["M"]().train()(torch.tensor(x)).numpy()
    module = rewritten.executed(rewritten.clean(source(layer)).text)["M"](training=True)
    return np.asarray(module.apply({}, jnp.asarray(x), rngs={"dropout": jax.random.key(0)})), theirs


DROPOUTS = [case for case in DRAWING if "nn.Dropout" in str(case)]
LAST = [f"nn.Sequential(nn.MaxPool{case.layer.rank - 2}d(1), {case})" for case in DROPOUTS if case.layer.rank]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(str(case), case.sample.shape) for case in DROPOUTS]
    + list(zip(LAST, [case.sample.shape for case in DROPOUTS if case.layer.rank], strict=True)),
)
def test_dropout(layer: str, shape: tuple[int, ...]) -> None:
    """What is dropped, and how what is left is scaled; with the channels where torch has them, and on the last axis."""
    ours, theirs = _dropped(layer, (40, 30, *shape[2:]))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(np.unique(ours), np.unique(theirs), rtol=1e-6)
    whole = [np.ptp(values.reshape(40, 30, -1), axis=-1) == 0 for values in (ours, theirs)]
    assert whole[0].all() == whole[1].all(), "one drops whole channels, the other does not"
    units = 40 * 30 if whole[0].all() else ours.size
    # five standard errors of the difference of two means of that many draws
    assert abs(ours.mean() - theirs.mean()) <= 5 * np.sqrt(2 * theirs.var() / units)
    assert (ours == 0).any() and (ours != 0).any()


@pytest.mark.filterwarnings("ignore:dropout[23]d. Received a")
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Dropout1d", (40, 30)),
        ("Dropout2d", (40, 30)),
        ("Dropout2d", (40, 30, 3)),
        ("Dropout3d", (40, 30)),
        ("Dropout3d", (40, 3, 2, 5)),
    ],
)
def test_dropout_of_channels_in_other_ranks(layer: str, shape: tuple[int, ...]) -> None:
    ours, theirs = _dropped(f"nn.{layer}(0.4)", shape)
    alike = [[(np.ptp(values, axis=axis) == 0).all() for axis in range(len(shape))] for values in (ours, theirs)]
    assert alike[0] == alike[1]
    assert (ours == 0).any() and (ours != 0).any()


# Ranks follow through recurrent layers, indexing and new shapes: what is called is what the rank tells.
RANKS = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.rnn = nn.LSTM(4, 6, batch_first=True)
        self.conv = nn.Conv2d(1, 2, 2)

    def forward(self, tokens):
        tokens = tokens.reshape(-1, 5)
        output, (h, c) = self.rnn(self.embed(tokens))
        last = output[:, -1]
        return {call}
"""


@pytest.mark.parametrize(
    ("call", "axes"),
    [("last", 2), ("h", 3), ("c[-1]", 2), ("last[:, None]", 3), ("last[..., 0]", 1), ("last.flatten(1)", 2)],
)
def test_a_known_rank_is_refused_where_it_is_wrong(call: str, axes: int) -> None:
    head = source("nn.Identity()").partition("class M")[0]
    made = rewritten.conversion(head + RANKS.format(call=f"self.conv({call})"))
    assert f"MIG302 an input of {axes} axes, where 4 are expected" in made.report.as_text()

"""The manifest and the moves in it: nothing is lost on the way to text and back, and a mistake is named with its
place.
"""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate import manifest
from migrate.layers import moves
from migrate.layers.moves import Flip, Permute, Reshape
from migrate.manifest import Leaf, Manifest, ManifestError, ModelWeights, Tie, Unused
from migrate.saved_files import Chain, Entry

NET = ModelWeights(
    "Net",
    (
        Leaf("params/conv1/kernel", "conv1.weight", (Permute((2, 3, 1, 0)),), (3, 3, 1, 32)),
        Leaf("params/blocks_{0}/key/kernel", "blocks.{0}.key.weight", (Permute((1, 0)),), (None, None), optional=True),
        Leaf("params/up/kernel", "up.weight", (Permute((2, 3, 0, 1)), Flip((0, 1))), (2, 2, None, 8), dtype="float32"),
        Leaf(
            "params/fc/kernel",
            "fc.weight",
            (Reshape((-1, 4, 3, 3)), Permute((2, 3, 1, 0)), Reshape((36, -1))),
            (36, 10),
            None,
            False,
            (10, 36),
        ),
        Leaf("batch_stats/bn/mean", "bn.running_mean", (), None),
    ),
    (Unused("bn.num_batches_tracked", "Flax counts no batches"),),
    (Tie("lm_head.weight", "wte.weight"),),
)
SAVED = (
    Entry("epoch", "value"),
    Entry("model", "model", "Net", variables=True),
    Entry("optimizer", "optimizer", of="model", chains=(Chain("torch.optim.SGD", "optax.sgd(args.lr)", whole=True),)),
    Entry("scheduler", "steps", of="optimizer"),
)
EXAMPLE = Manifest("train.py", "linen", (NET, ModelWeights("Ünïcode")), (SAVED, (Entry("", "model", "Net"),)))

names = st.text(st.sampled_from('abcé_."\\ '), min_size=1, max_size=6)
any_move = st.one_of(
    st.permutations(range(3)).map(lambda axes: Permute(tuple(axes))),
    st.lists(st.integers(0, 2), unique=True, max_size=3).map(lambda axes: Flip(tuple(axes))),
)
leaves = st.builds(
    lambda path, key, steps, dtype, optional: Leaf(f"params/{path}", key, tuple(steps), None, dtype, optional),
    names,
    names,
    st.lists(any_move, max_size=3),
    st.none() | st.just("float32"),
    st.booleans(),
)
models = st.builds(
    ModelWeights,
    names,
    st.lists(leaves, max_size=3).map(tuple),
    st.lists(st.builds(Unused, names, names), max_size=2).map(tuple),
    st.lists(st.builds(Tie, names, names, st.booleans()), max_size=2).map(tuple),
)


def test_text_is_readable_one_leaf_a_line():
    text = manifest.dumps(EXAMPLE)
    assert sum('"flax"' in line for line in text.splitlines()) == text.count('"flax"') == 5
    assert json.loads(text)["models"][0]["leaves"][0] == {
        "flax": "params/conv1/kernel",
        "torch": "conv1.weight",
        "moves": [["permute", 2, 3, 1, 0]],
        "shape": [3, 3, 1, 32],
    }


def test_round_trip():
    text = manifest.dumps(EXAMPLE)
    assert manifest.loads(text) == EXAMPLE
    assert manifest.dumps(manifest.loads(text)) == text


@given(st.lists(models, max_size=3, unique_by=lambda model: model.name).map(tuple), names)
def test_round_trip_of_any_manifest(some, source):
    whole = Manifest(source, "linen", some)
    assert manifest.loads(manifest.dumps(whole)) == whole


def test_write_then_read(tmp_path):
    path = tmp_path / "weights.json"
    manifest.write(EXAMPLE, path)
    assert manifest.read(path) == EXAMPLE
    assert os.listdir(tmp_path) == ["weights.json"]


def test_nothing_is_left_behind_after_an_error(tmp_path):
    path = tmp_path / "weights.json"
    path.write_text("old")
    with pytest.raises(RuntimeError), manifest.replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["weights.json"]


def _broken(change) -> str:
    data = json.loads(manifest.dumps(EXAMPLE))
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["models"][0]["leaves"][2]["moves"][0].__setitem__(0, "permut"),
            "models[0].leaves[2].moves[0]: unknown move 'permut', did you mean 'permute'?",
        ),
        (
            lambda d: d["models"][0]["leaves"][0]["moves"][0].append("x"),
            "models[0].leaves[0].moves[0]: permute takes whole numbers",
        ),
        (lambda d: d["saved"][0][1].update(holds="modle"), "saved[0][1].holds: expected one of model, optimizer"),
        (lambda d: d["saved"].append([]), "saved[2]: a file without entries"),
        (lambda d: d["saved"][0][2].update(key="epoch"), "saved[0][2].key: a second entry 'epoch'"),
        (lambda d: d["saved"][0][2]["chains"][0].pop("optax"), "saved[0][2].chains[0]: 'optax' is missing"),
        (lambda d: d["saved"][0][1].update(variables=1), "saved[0][1].variables: expected true or false, not 1"),
        (
            lambda d: d["models"][0]["leaves"][0].update(moves=[["permute", 0, 0]]),
            "models[0].leaves[0].moves[0]: permute needs each",
        ),
        (lambda d: d["models"][0]["leaves"][0].update(moves=[[]]), "models[0].leaves[0].moves[0]: a move is a list"),
        (
            lambda d: d["models"][0]["leaves"][0].update(moves=[["flip", -1]]),
            "models[0].leaves[0].moves[0]: flip needs",
        ),
        (
            lambda d: d["models"][0]["leaves"][0].update(moves=[["reshape", -1, -1]]),
            "models[0].leaves[0].moves[0]: reshape needs",
        ),
        (
            lambda d: d["models"][0]["leaves"][0].update(moves=[["permute", 1, 0]]),
            "models[0].leaves[0]: the moves do not lead to the shape",
        ),
        (
            lambda d: d["models"][0]["leaves"][0].update(shape=[3, "3"]),
            "models[0].leaves[0].shape: expected a list of lengths",
        ),
        (
            lambda d: d["models"][0]["leaves"][0].update(sape=[3]),
            "models[0].leaves[0]: unknown entry 'sape', did you mean 'shape'?",
        ),
        (lambda d: d["models"][0]["leaves"][0].pop("torch"), "models[0].leaves[0]: 'torch' is missing"),
        (
            lambda d: d["models"][0]["leaves"][0].update(torch="conv{0}.weight"),
            "models[0].leaves[0]: 'conv{0}.weight' and",
        ),
        (
            lambda d: d["models"][0]["leaves"][0].update(flax="kernel"),
            "models[0].leaves[0].flax: 'kernel' is not a collection",
        ),
        (
            lambda d: d["models"][0]["leaves"][0].update(optional="yes"),
            "models[0].leaves[0].optional: expected true or false",
        ),
        (lambda d: d["models"][0]["unused"].append("x"), "models[0].unused[1]: expected an object"),
        (lambda d: d["models"][1].update({"class": "Net"}), "models[1].class: a second model 'Net'"),
        (lambda d: d.update(models={}), "models: expected a list"),
        (lambda d: d.update(version=2), "version: this version of the toolkit reads version 1, not 2"),
        (lambda d: d.update(format="onnx"), "format: expected 'migrate-weights'"),
    ],
)
def test_a_mistake_is_named_with_its_place(change, message):
    with pytest.raises(ManifestError) as caught:
        manifest.loads(_broken(change))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not JSON"),
        ('{"format": 1, "format": 2}', "the entry 'format' stands twice"),
        ("[]", "the manifest: expected"),
    ],
)
def test_text_that_is_no_manifest(text, message):
    with pytest.raises(ManifestError, match=message.replace("[", r"\[")):
        manifest.loads(text)


def test_read_names_the_file(tmp_path):
    (tmp_path / "w.json").write_text("nonsense")
    with pytest.raises(ManifestError, match=r"w\.json: line 1: not JSON"):
        manifest.read(tmp_path / "w.json")


# --- moves ------------------------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 4), min_size=3, max_size=3).map(tuple)


@given(st.lists(any_move, max_size=4), shapes)
def test_inverse_undoes_the_shape_and_its_inverse_is_the_move(steps, shape):
    after = moves.shape_after(steps, shape)
    undone = moves.inverse(steps, None, after)  # the way back needs no torch shape: no reshape is among them
    assert moves.shape_after(undone, after) == shape
    assert moves.inverse(undone, after, shape) == tuple(steps)


def test_unknown_lengths_travel():
    assert Permute((1, 0)).shape((None, 4)) == (4, None)
    assert Reshape((-1, 2)).shape((None, 4)) == (None, 2)
    assert Reshape((-1, 2)).shape((3, 4)) == (6, 2)


def test_flatten_before_linear_goes_back():
    steps = (Reshape((10, 4, 3, 3)), Permute((2, 3, 1, 0)), Reshape((36, 10)))
    assert moves.shape_after(steps, (10, 36)) == (36, 10)
    assert moves.inverse(steps, (10, 36), (36, 10)) == (
        Reshape((3, 3, 4, 10)),
        Permute((3, 2, 0, 1)),
        Reshape((10, 36)),
    )
    assert moves.inverse(steps, (10, None), (36, 10))[-1] == Reshape((10, -1))
    with pytest.raises(ValueError, match="torch_shape"):
        moves.inverse(steps, None, (36, 10))


@pytest.mark.parametrize(
    ("move", "shape"),
    [
        (Permute((1, 0)), (4,)),
        (Flip((2,)), (4, 4)),
        (Reshape((3, 3)), (4, 4)),
        (Reshape((-1, 3)), (4, 4)),
        (Reshape((-1, 0)), (4,)),
    ],
)
def test_a_move_that_does_not_apply(move, shape):
    with pytest.raises(ValueError, match=r"\("):
        move.shape(shape)


def test_shapes_are_shown_as_written():
    assert [moves.show(s) for s in ((), (3,), (3, None), None)] == ["()", "(3,)", "(3, ?)", "(...)"]

"""Weights that are split, fused, stacked or added on the way, both ways, in memory and as a stream."""

import numpy as np
import pytest
import torch

from migrate import manifest as manifests
from migrate.layers.moves import Add, Part, Permute, Reshape, Slice, Stack
from migrate.manifest import Leaf, Manifest, ManifestError, ModelWeights
from weight_port import PortError, port_state_dict, port_weights, unport_tree, views
from weight_port.apply import infos
from weight_port.pieces import covers, index_of
from weight_port.planning import plan_port

SWAP = Permute((1, 0))
HEADS = (SWAP, Reshape((6, 3, 2)))
RANDOM = np.random.default_rng(0)

ATTENTION = ModelWeights(  # torch's fused projection, apart in Flax and by heads
    "Attention",
    tuple(
        Leaf(f"params/{name}/kernel", "in_proj_weight", HEADS, (6, 3, 2), torch_shape=(18, 6), take=(Part(0, i, 3),))
        for i, name in enumerate(("query", "key", "value"))
    ),
)
FUSED = ModelWeights(  # apart in torch, fused in Flax, of different lengths
    "Fused",
    (
        Leaf("params/qkv/kernel", "q.weight", (SWAP,), (6, 10), put=(Slice(1, 0, 6),)),
        Leaf("params/qkv/kernel", "k.weight", (SWAP,), (6, 10), put=(Slice(1, 6, 8),)),
        Leaf("params/qkv/kernel", "v.weight", (SWAP,), (6, 10), put=(Slice(1, 8, 10),)),
    ),
)
SCANNED = ModelWeights(
    "Scanned",
    (
        Leaf("params/layers/kernel", "layers.{0}.weight", (SWAP,), None, put=(Stack(1, "0"),)),
        Leaf(
            "params/experts/kernel", "layers.{0}.experts.{1}.weight", (SWAP,), None, put=(Stack(0, "0"), Stack(0, "1"))
        ),
        Leaf("params/layers/bias", "layers.{0}.bias", (), (None, 5), put=(Stack(0, "0"),)),
    ),
)
SUMMED = ModelWeights(
    "Summed",
    tuple(
        Leaf(f"params/{gate}/bias", key, (), (2,), torch_shape=(6,), take=(Part(0, i, 3),), put=(Add(),))
        for key in ("bias_ih", "bias_hh")
        for i, gate in enumerate("rzn")
    ),
)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


CASES = {
    "split": (ATTENTION, {"in_proj_weight": draw(18, 6)}),
    "fused": (FUSED, {"q.weight": draw(6, 6), "k.weight": draw(2, 6), "v.weight": draw(2, 6)}),
    "scanned": (
        SCANNED,
        {f"layers.{i}.weight": draw(5, 4) for i in range(12)}
        | {f"layers.{i}.bias": draw(5) for i in range(12)}
        | {f"layers.{i}.experts.{j}.weight": draw(3, 2) for i in range(12) for j in range(2)},
    ),
}


def test_split_and_by_heads():
    model, state = CASES["split"]
    tree = port_state_dict(state, model)["params"]
    key = state["in_proj_weight"][6:12]
    np.testing.assert_array_equal(tree["key"]["kernel"], key.T.reshape(6, 3, 2))


def test_stacked_in_numerical_order():
    model, state = CASES["scanned"]
    tree = port_state_dict(state, model)["params"]
    assert tree["layers"]["kernel"].shape == (4, 12, 5) and tree["experts"]["kernel"].shape == (12, 2, 2, 3)
    np.testing.assert_array_equal(tree["layers"]["kernel"][:, 11], state["layers.11.weight"].T)
    np.testing.assert_array_equal(tree["experts"]["kernel"][10, 1], state["layers.10.experts.1.weight"].T)


@pytest.mark.parametrize("slab", [16, 100, 2**22])
@pytest.mark.parametrize("name", CASES)
def test_there_and_back_bit_for_bit(tmp_path, monkeypatch, name, slab):
    monkeypatch.setattr(views, "SLAB", slab)
    model, state = CASES[name]
    back = unport_tree(port_state_dict(state, model), model)
    assert back.keys() == state.keys()
    assert all(np.array_equal(back[key], state[key]) for key in state)
    torch.save({key: torch.from_numpy(value) for key, value in state.items()}, tmp_path / "m.pt")
    manifest = Manifest("x.py", "linen", (model,))
    manifests.write(manifest, tmp_path / "weights.json")
    assert manifests.read(tmp_path / "weights.json") == manifest
    for target in ("flax.safetensors", "flax.msgpack", "flax"):
        port_weights(tmp_path / "m.pt", tmp_path / "weights.json", tmp_path / target)
        port_weights(tmp_path / target, manifest, tmp_path / f"{target}.back.pt", reverse=True)
        found = torch.load(tmp_path / f"{target}.back.pt", weights_only=True)
        assert found.keys() == state.keys() and all(np.array_equal(found[key].numpy(), state[key]) for key in state)


def test_sums_go_back_as_a_sum_and_a_zero():
    state = {"bias_ih": draw(6), "bias_hh": draw(6)}
    tree = port_state_dict(state, SUMMED)
    total = state["bias_ih"] + state["bias_hh"]
    np.testing.assert_array_equal(tree["params"]["z"]["bias"], total[2:4])
    back = unport_tree(tree, SUMMED)
    np.testing.assert_array_equal(back["bias_ih"], total)
    np.testing.assert_array_equal(back["bias_hh"], np.zeros(6))


@pytest.mark.parametrize(
    ("model", "state", "code", "word"),
    [
        (FUSED, {"q.weight": draw(6, 6), "k.weight": draw(2, 6)}, "WPT102", "v.weight"),
        (FUSED, CASES["fused"][1] | {"v.weight": draw(3, 6)}, "WPT103", "(6, 3)"),
        (SCANNED, {k: v for k, v in CASES["scanned"][1].items() if not k.startswith("layers.3.w")}, "WPT108", "12"),
        (ATTENTION, {"in_proj_weight": draw(17, 6)}, "WPT103", "3 equal parts"),
        (ModelWeights("A", ATTENTION.leaves[:2]), CASES["split"][1], "WPT108", "query"),
        (ModelWeights("F", (*FUSED.leaves, FUSED.leaves[0])), CASES["fused"][1], None, ""),
    ],
    ids=["missing", "too long", "gap", "indivisible", "not all taken", "said twice"],
)
def test_pieces_that_do_not_fit(model, state, code, word):
    if code is None:
        assert port_state_dict(state, model)
        return
    with pytest.raises(PortError) as caught:
        plan_port(model, infos(state))
    assert code in str(caught.value) and word in str(caught.value)


def test_coverage():
    whole = (slice(0, 2), slice(0, 4))
    assert covers([()], (2, 4)) and covers([whole], (2, 4)) and not covers([whole, whole], (2, 4))
    assert covers([(0, slice(0, 4)), (1, slice(0, 3)), (1, slice(3, 4))], (2, 4))
    assert not covers([(0, slice(0, 4)), (1, slice(0, 2))], (2, 4))
    assert not covers([(slice(0, 2),), (slice(1, 3),)], (4,))  # as many places, but not the same
    assert not covers([(slice(0, 3),), (slice(3, 5),)], (4,))
    assert index_of((Stack(0, "0"), Part(0, 1, 2)), {"0": "3"}, (5, 8)) == (3, slice(4, 8))


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ({"take": [["stack", 0, "{0}"]]}, "only a part or a slice"),
        ({"put": [["part", 0, 3, 3]]}, "an index and a count above it"),
        ({"put": [["slice", 0, 3, 3]]}, "a stop above it"),
        ({"put": [["stack", 0, "{0}"]]}, "must hold the same indices"),
        ({"put": ["add"]}, "a piece is one of"),
        ({"put": [["part", 1, 0, 2]], "shape": [4, 4]}, "the moves do not lead to the shape"),
    ],
)
def test_mistakes_in_the_manifest_are_named(entry, word):
    leaf = {"flax": "params/w", "torch": "w", "moves": [["reshape", 3, 5]], **entry}
    data = {"format": "migrate-weights", "version": 1, "models": [{"class": "M", "leaves": [leaf]}]}
    with pytest.raises(ManifestError, match=word):
        manifests.loads(__import__("json").dumps(data))

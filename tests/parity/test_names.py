"""Names of one side as names of the other."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights, Unused
from parity import names
from parity.codes import ParityError
from parity.record import Recording

WEIGHTS = ModelWeights(
    "Net",
    (
        Leaf("params/conv/kernel", "conv.weight", (Permute((2, 3, 1, 0)),), (3, 3, 1, 4)),
        Leaf("params/blocks_{0}/heads_{1}/key/kernel", "blocks.{0}.heads.{1}.key.weight", (Permute((1, 0)),)),
        Leaf("batch_stats/net/layers_1/mean", "net.1.running_mean"),
    ),
    (Unused("net.1.num_batches_tracked", "Flax counts no batches"),),
)


def test_torch_name_of_a_leaf() -> None:
    assert names.torch_name(WEIGHTS, "params/conv/kernel") == "conv.weight"
    assert names.torch_name(WEIGHTS, "params/blocks_3/heads_1/key/kernel") == "blocks.3.heads.1.key.weight"
    assert names.torch_name(WEIGHTS, "params/unknown/kernel") == "params/unknown/kernel"


def test_module_names_by_the_manifest_and_by_spelling() -> None:
    flax = ["conv", "blocks_0", "blocks_0/heads_2/key", "net/layers_1", "net/layers_2", "fc_1", "other"]
    torch = ["conv", "blocks.0", "blocks.0.heads.2.key", "net.1", "net.2", "fc_1"]
    assert names.module_names(WEIGHTS, flax, torch) == dict(zip(flax, torch, strict=False))


def test_ported_flat_takes_one_collection_and_ignores_other_keys() -> None:
    state = {
        "conv.weight": np.zeros((4, 1, 3, 3), np.float32),
        "blocks.0.heads.0.key.weight": np.zeros((2, 5), np.float32),
        "net.1.running_mean": np.zeros(4, np.float32),
        "net.1.num_batches_tracked": np.zeros((), np.int64),
    }
    flat = names.ported_flat(state, WEIGHTS, "params/")
    assert {name: value.shape for name, value in flat.items()} == {
        "params/conv/kernel": (3, 3, 1, 4),
        "params/blocks_0/heads_0/key/kernel": (5, 2),
    }


def _recording(*models: str) -> Recording:
    initial = {f"{model}|w": np.full(2, i, np.float32) for i, model in enumerate(models)}
    return Recording(models=list(models), initial=initial)


ONE = ModelWeights("Net", (Leaf("params/w", "w"),))


def test_the_weights_of_two_models_of_a_class_go_by_the_order_of_construction() -> None:
    recording = _recording("Net#1", "Net", "Other")  # in the order of first use
    assert names.torch_model(recording, ONE, 0) == "Net"
    assert names.torch_model(recording, ONE, 1) == "Net#1"
    with pytest.raises(ParityError, match="initialises 3 models Net, the torch run had 2"):
        names.torch_model(recording, ONE, 2)


def test_a_model_without_a_class_of_its_own_is_found_by_its_state_dict() -> None:
    assert names.torch_model(_recording("Sequential"), ONE, 0) == "Sequential"
    with pytest.raises(ParityError, match="no model Net"):
        names.torch_model(_recording("Sequential", "Linear"), ONE, 0)


def test_of_several_without_a_class_those_that_fit_are_meant() -> None:
    recording = Recording(
        models=["Sequential", "Sequential#1", "Sequential#2"],
        initial={"Sequential|0.w": np.zeros(2), "Sequential#1|w": np.ones(2), "Sequential#2|w": np.ones(2)},
    )
    row = ModelWeights("Sequential", ONE.leaves)
    assert [names.torch_model(recording, row, n) for n in range(2)] == ["Sequential#1", "Sequential#2"]
    assert names.torch_model(recording, ModelWeights("Sequential", (Leaf("params/v", "v"),)), 1) == "Sequential#1"


def test_a_class_that_the_manifest_lacks() -> None:
    with pytest.raises(ParityError, match="does not describe the model Other"):
        names.model_weights(Manifest("train.py", "linen", (ONE,)), "Other")


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("__main__", "Net"),
        ("nets.model", "nets.model.Net"),
        ("model", "nets.model.Net"),  # its folder is on the search path
        ("other.nets.model", "nets.model.Net"),
        ("another", "Net"),
    ],
)
def test_classes_of_one_name_go_by_their_files(module: str, told: str) -> None:
    manifest = Manifest("train.py", "linen", (ONE, ModelWeights("nets.model.Net", ONE.leaves)))
    assert names.told_class(manifest, type("Net", (), {"__module__": module})) == told


def test_models_of_classes_of_one_name_are_not_taken_for_one_another() -> None:
    recording = _recording("Net", "Net#1", "Net#2")
    recording.modules = {"Net": "nets.model", "Net#1": "__main__", "Net#2": "model"}
    assert names.instances(recording, "Net") == ["Net#1"]
    assert names.instances(recording, "nets.model.Net") == ["Net", "Net#2"]
    recording.modules = dict.fromkeys(recording.models, "nets.model")
    assert len(names.instances(recording, "Net")) == 3

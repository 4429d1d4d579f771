"""Published families: real classes with random weights, ported by family, compared with Flax's; and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from weight_port import PortError, family_manifest, family_of, family_weights, port_weights
from weight_port.families import table

# Relative to the largest output. Float32: some layers' rounding, of 2^-24 each; the UNet's is the largest, 1.4e-5.
# Float64: both libraries compute some things in float32 whatever the type is (norms, rotary tables, position tables),
# 8e-7 at most. A wrong transpose or two weights exchanged are above 1e-2.
FLOAT32, FLOAT64 = 5e-5, 2e-6
WITHOUT_FLAX = {"qwen2", "qwen3", "gemma2", "gemma3_text", "gemma3_text alone", "convnext"}
LAYOUTS = {"vit big_vision", "llama maxtext", "gemma2 maxtext", "gemma3_text maxtext"}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "families.md"
BY_ITSELF = {"torchvision_resnet", "timm_resnet", "dit"}  # neither library has the class: names alone are tested


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    # torchvision is not needed, and where it was built for another torch it breaks transformers' imports
    program = "import sys; sys.modules['torchvision'] = None; import tests.weight_port.family_models as f; f.main()"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_family_was_compared(found):
    assert {name.split()[0] for name in found} == set(table()) - BY_ITSELF


def test_families_come_back_as_they_were(found):
    assert [name for name, result in found.items() if not result["round trip"]] == []


def test_families_compute_what_torch_computes(found):
    compared = {name: result for name, result in found.items() if "float32" in result or "float64" in result}
    assert set(found) - set(compared) == WITHOUT_FLAX
    assert {name: result for name, result in compared.items() if result.get("float32", 0) > FLOAT32} == {}
    assert {name: result for name, result in compared.items() if result.get("float64", 0) > FLOAT64} == {}
    assert {name for name in found if name.count(" ") and name.split()[1] != "alone"} == LAYOUTS


def test_the_page_names_every_family_with_its_source():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name, entry in table().items() if f"- `{name}`: " not in text or entry["source"] not in text] == []


def resnet18() -> dict[str, np.ndarray]:
    """A state dict with torchvision's names; every tensor is small, but of the right rank."""
    draw = np.random.default_rng(0)
    batch_norm = ("weight", "bias", "running_mean", "running_var")
    convolutions, norms = ["conv1"], ["bn1"]
    for stage in range(1, 5):
        for block in range(2):
            convolutions += [f"layer{stage}.{block}.conv{i}" for i in (1, 2)]
            norms += [f"layer{stage}.{block}.bn{i}" for i in (1, 2)]
    for stage in range(2, 5):
        convolutions.append(f"layer{stage}.0.downsample.0")
        norms.append(f"layer{stage}.0.downsample.1")
    state = {f"{name}.weight": draw.normal(size=(4, 3, 2, 2)) for name in convolutions}
    state |= {f"{name}.{part}": draw.normal(size=4) for name in norms for part in batch_norm}
    state |= {f"{name}.num_batches_tracked": np.array(7) for name in norms}
    return state | {"fc.weight": draw.normal(size=(5, 4)), "fc.bias": draw.normal(size=5)}


def test_a_family_is_ported_by_name_and_comes_back(tmp_path):
    state = resnet18()
    save_file(state, tmp_path / "resnet18.safetensors")
    manifest = family_manifest(tmp_path / "resnet18.safetensors", "torchvision_resnet")
    port_weights(tmp_path / "resnet18.safetensors", manifest, tmp_path / "flax.safetensors")
    flax = load_file(tmp_path / "flax.safetensors")
    expected = state["layer3.0.downsample.0.weight"].transpose(2, 3, 1, 0)
    assert np.array_equal(flax["params/layer3_0/downsample_0/kernel"], expected)
    assert np.array_equal(flax["batch_stats/layer1_1/bn2/var"], state["layer1.1.bn2.running_var"])
    back = family_manifest(tmp_path / "flax.safetensors", "torchvision_resnet", reverse=True)
    port_weights(tmp_path / "flax.safetensors", back, tmp_path / "back.safetensors", reverse=True)
    returned = load_file(tmp_path / "back.safetensors")
    assert set(returned) == {key for key in state if not key.endswith("num_batches_tracked")}
    assert all(np.array_equal(returned[key], state[key]) for key in returned)


def test_a_configuration_names_its_family():
    assert family_of({"model_type": "gpt2"}) == "gpt2"
    assert family_of({"_class_name": "AutoencoderKL"}) == family_of({"_class_name": "FlaxAutoencoderKL"}) is not None
    assert family_of({"model_type": "wav2vec2"}) is None
    assert family_of({}) is None


@pytest.mark.parametrize(
    ("config", "family", "layout", "said"),
    [
        (None, None, None, "no config.json"),
        ({"model_type": "wav2vec2"}, None, None, "'wav2vec2'"),
        (None, "resnet51", None, "no family 'resnet51'"),
        ({"model_type": "bert"}, None, "maxtext", "maxtext has no layout for 'bert'"),
        ({"model_type": "llama"}, None, "paxml", "no layout 'paxml'"),
        ({"model_type": "llama"}, None, "maxtext", "the configuration does not say"),
    ],
)
def test_what_is_not_known_is_said(tmp_path, config, family, layout, said):
    save_file({"w": np.zeros(1)}, tmp_path / "model.safetensors")
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(PortError, match="WPT008") as caught:
        family_manifest(tmp_path / "model.safetensors", family, layout=layout)
    assert said in str(caught.value)


def test_a_scale_and_a_shift_are_rounded_once(tmp_path):
    """A norm's weight in bfloat16 that is to be one more."""
    weights = family_weights(
        "gemma2",
        ["model.norm.weight"],
        config={"num_hidden_layers": 0, "hidden_size": 4},
        layout="maxtext",
    )
    shift = {leaf.flax: leaf.shift for leaf in weights.leaves}
    assert shift["params/decoder/decoder_norm/scale"] == 1.0
    scale = {leaf.flax: leaf.scale for leaf in weights.leaves}
    assert scale["params/token_embedder/embedding"] == 2.0

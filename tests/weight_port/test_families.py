"""Published families: real classes with random weights, ported by family, compared with Flax's; and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax.traverse_util import unflatten_dict
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from migrate.cli import app
from tests.conformance import rewritten
from tests.weight_port.published import PUBLISHED
from weight_port import PortError, family_manifest, family_of, family_weights, port_weights
from weight_port.families import table

# Relative to the largest output. Float32: some layers' rounding, of 2^-24 each; the UNet's is the largest, 1.8e-6.
# Float64: both libraries compute some things in float32 whatever the type is (norms, rotary tables, position tables),
# 8e-7 at most. A wrong transpose or two weights exchanged are above 1e-2.
FLOAT32, FLOAT64 = 1e-5, 2e-6
# Float64, a dozen layers of some hundred roundings of 1.1e-16 each.
REWRITTEN = 1e-11
WITHOUT_FLAX = {"qwen3", "gemma2", "gemma3_text", "gemma3_text alone", "convnext"}
LAYOUTS = {"vit big_vision", "llama maxtext", "gemma2 maxtext", "gemma3_text maxtext"}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "families.md"
BY_ITSELF = set(PUBLISHED) - WITHOUT_FLAX  # neither library has the class


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


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_family_fits_the_rewritten_module(name, tmp_path):
    """Neither library has a Flax class: a module of the same structure, rewritten, computes what torch does."""
    written, model, inputs = PUBLISHED[name]
    torch.manual_seed(0)
    theirs = rewritten.executed(written)[model]().double().eval()
    with torch.no_grad():
        for tensor in (*theirs.parameters(), *theirs.buffers()):
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5) if tensor.ndim == 1 else tensor.normal_(std=0.3)
    torch.save(theirs.state_dict(), tmp_path / "m.pt")
    port_weights(tmp_path / "m.pt", family_manifest(tmp_path / "m.pt", name), tmp_path / "flax.safetensors")
    variables = unflatten_dict(load_file(tmp_path / "flax.safetensors"), sep="/")
    draw = np.random.default_rng(0)
    given = [draw.integers(0, x, 2) if isinstance(x, int) else draw.normal(size=x) for x in inputs]
    ours = rewritten.executed(rewritten.clean(written).text)[model]()
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(ours.apply)(variables, *map(jnp.asarray, given)))
    expected = theirs(*map(torch.from_numpy, given)).detach().numpy()
    assert np.abs(found - expected).max() <= REWRITTEN * np.abs(expected).max()
    back = family_manifest(tmp_path / "flax.safetensors", name, reverse=True)
    port_weights(tmp_path / "flax.safetensors", back, tmp_path / "back.safetensors", reverse=True)
    returned = load_file(tmp_path / "back.safetensors")
    state = {key: tensor.numpy() for key, tensor in theirs.state_dict().items()}
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


def test_one_of_several_state_dicts_of_a_family(tmp_path):
    """A training checkpoint with a moving average."""
    theirs = rewritten.executed(PUBLISHED["torchvision_resnet"][0])[PUBLISHED["torchvision_resnet"][1]]()
    torch.save({"model": theirs.state_dict(), "ema": theirs.state_dict()}, tmp_path / "m.pt")
    arguments = ["port-weights", str(tmp_path / "m.pt"), "--family", "torchvision_resnet", "--dry-run"]
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert CliRunner().invoke(app, [*arguments, "--key", "ema"]).exit_code == 0


def test_a_checkpoint_without_a_configuration(tmp_path):
    """What it is comes first; then, by its keys, which families it may be of."""
    theirs = rewritten.executed(PUBLISHED["torchvision_resnet"][0])[PUBLISHED["torchvision_resnet"][1]]()
    torch.save({f"module.{key}": tensor for key, tensor in theirs.state_dict().items()}, tmp_path / "m.pt")
    with pytest.raises(PortError, match=r"WPT008(.|\n)*--family, whose keys these are: torchvision_resnet"):
        family_manifest(tmp_path / "m.pt")
    (tmp_path / "m.gguf").write_bytes(b"GGUF\3\0\0\0")
    with pytest.raises(PortError, match=r"WPT002: .*GGUF"):
        family_manifest(tmp_path / "m.gguf")


def test_a_source_that_is_not_there(tmp_path):
    with pytest.raises(PortError, match="WPT001: cannot open"):
        family_manifest(tmp_path / "gpt2")


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

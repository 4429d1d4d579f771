"""The examples on the pages about weights are true: their Python runs, their JSON is read, their messages are ours."""

import json
import re
from pathlib import Path

import pytest
import torch

from migrate import manifest as manifests
from migrate.manifest import Manifest, ManifestError
from weight_port import PortError, port_weights
from weight_port.codes import CODES
from weight_port.orbax_files import Mesh

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "port-weights.md").read_text()
PRETRAINED = (DOCS / "guides" / "from-pretrained.md").read_text()
REFERENCE = (DOCS / "reference" / "manifest.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    Path("weights.json").write_text(blocks(REFERENCE, "json")[0])
    embedding = torch.ones(7, 4)
    state = {
        "conv1.weight": torch.rand(32, 1, 3, 3),
        "blocks.0.fc.weight": torch.rand(4, 4),
        "bn.running_mean": torch.rand(16),
        "bn.num_batches_tracked": torch.tensor(1),
        "lm_head.weight": embedding,
        "wte.weight": embedding,
    }
    data = json.loads(Path("weights.json").read_text())
    leaf = {"flax": "params/wte/embedding", "torch": "wte.weight", "moves": [], "shape": [7, 4]}
    data["models"][0]["leaves"].append(leaf)
    Path("weights.json").write_text(json.dumps(data))
    torch.save(state, "model.pt")
    for out in ("model.safetensors", "model.msgpack", "model"):
        port_weights("model.pt", "weights.json", out)
    return tmp_path


@pytest.mark.parametrize("code", blocks(GUIDE, "python") + blocks(REFERENCE, "python"))
def test_python_runs(folder, code):
    names: dict = {}
    exec(compile(code, "page", "exec"), names)
    if "variables" in names:
        assert names["variables"]["params"]["conv1"]["kernel"].shape == (3, 3, 1, 32)
    if (folder / "copy.json").exists():
        assert manifests.read("copy.json") == manifests.read("weights.json")


def test_the_mesh_is_read(tmp_path):
    (tmp_path / "mesh.json").write_text(blocks(GUIDE, "json")[0])
    mesh = Mesh.read(tmp_path / "mesh.json")
    assert mesh.chunks("params/fc/kernel", (3, 8)) == (3, 2)


def test_any_flax_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layers = (torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    torch.save(torch.nn.Sequential(*layers).state_dict(), "classifier.pt")
    names: dict = {}
    for code in blocks(PRETRAINED, "python"):
        exec(compile(code, "page", "exec"), names)
    assert names["variables"]["params"]["hidden"]["kernel"].dtype.name == "bfloat16"
    port_weights("classifier.pt", "weights.json", "o.safetensors", verify=True)


def test_the_example_is_written_as_the_toolkit_writes_it():
    example = blocks(REFERENCE, "json")[0]
    assert manifests.dumps(manifests.loads(example)) == example
    leaf = json.loads(blocks(REFERENCE, "json")[1])
    whole = {"format": "migrate-weights", "version": 1, "models": [{"class": "Net", "leaves": [leaf]}]}
    assert isinstance(manifests.loads(json.dumps(whole)), Manifest)


def test_the_messages_are_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leaves = [
        {"flax": "params/fc/kernel", "torch": "fc.weight", "moves": [["permute", 1, 0]], "shape": [2, 3]},
        {"flax": "params/fc/bias", "torch": "fc.bias", "moves": [], "shape": [3]},
    ]
    data = {"format": "migrate-weights", "version": 1, "models": [{"class": "Net", "leaves": leaves}]}
    Path("weights.json").write_text(json.dumps(data))
    torch.save({"fc.wieght": torch.ones(3, 2), "fc.bias": torch.ones(7)}, "model.pt")
    with pytest.raises(PortError) as caught:
        port_weights("model.pt", "weights.json", "f.npz")
    assert str(caught.value) + "\n" in blocks(GUIDE, "text")
    leaves += [leaves[0], leaves[0] | {"moves": [["permut", 1, 0]]}]
    Path("weights.json").write_text(json.dumps(data))
    with pytest.raises(ManifestError) as misread:
        manifests.read("weights.json")
    assert str(misread.value) + "\n" in blocks(REFERENCE, "text")


def test_codes_on_the_pages_exist():
    assert set(re.findall(r"WPT\d{3}", GUIDE + REFERENCE + PRETRAINED)) <= set(CODES)

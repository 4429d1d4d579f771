"""Porting a checkpoint from file to file, and back: what `migrate port-weights` does."""

import io
import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors import safe_open
from safetensors.numpy import load_file

from migrate import manifest as manifests
from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights, Tie, Unused
from weight_port import PortError, port_weights

SWAP = (Permute((1, 0)),)
LM = ModelWeights(
    "LM",
    (
        Leaf("params/wte/embedding", "wte.weight", (), (7, 4)),
        Leaf("params/blocks_{0}/fc/kernel", "blocks.{0}.fc.weight", SWAP, (4, None)),
        Leaf("params/blocks_{0}/fc/bias", "blocks.{0}.fc.bias", (), (None,)),
    ),
    (Unused("blocks.{0}.mask", "recomputed in setup"),),
    (Tie("head.weight", "wte.weight"),),
)


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, width)
        self.register_buffer("mask", torch.ones(2, 2).tril())


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = torch.nn.Embedding(7, 4)
        self.blocks = torch.nn.ModuleList([Block(4), Block(6)])
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.wte.weight


@pytest.fixture
def files(tmp_path):
    """A checkpoint with its manifest."""
    torch.manual_seed(0)
    net = Net()
    torch.save({"model": net.state_dict(), "step": 3}, tmp_path / "ckpt.pt")
    manifests.write(Manifest("train.py", "linen", (LM,)), tmp_path / "weights.json")
    return net, tmp_path / "ckpt.pt", tmp_path / "weights.json", tmp_path


def fails(code: str, *args, words=(), **options) -> PortError:
    with pytest.raises(PortError) as caught:
        port_weights(*args, **options)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)
    return caught.value


@pytest.mark.parametrize("flax", [".safetensors", ".msgpack", ".npz"])
@pytest.mark.parametrize("back", [".safetensors", ".pt", ".npz"])
def test_there_and_back(files, flax, back):
    net, checkpoint, manifest, folder = files
    port_weights(checkpoint, manifest, folder / f"flax{flax}")
    port_weights(folder / f"flax{flax}", manifest, folder / f"back{back}", reverse=True)
    if back == ".pt":
        found = {k: v.numpy() for k, v in torch.load(folder / "back.pt", weights_only=True).items()}
    else:
        found = dict(np.load(folder / "back.npz")) if back == ".npz" else load_file(folder / "back.safetensors")
    expected = {name: tensor.numpy() for name, tensor in net.state_dict().items() if not name.endswith("mask")}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes() and found[name].shape == array.shape


def test_torch_loads_what_comes_back(files):
    net, checkpoint, manifest, folder = files
    port_weights(checkpoint, manifest, folder / "flax.safetensors")
    port_weights(folder / "flax.safetensors", manifest, folder / "back.pt", reverse=True)
    other = Net()
    missing = other.load_state_dict(torch.load(folder / "back.pt", weights_only=True), strict=False)
    assert missing.missing_keys == ["blocks.0.mask", "blocks.1.mask"] and not missing.unexpected_keys
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))


def test_the_file_says_where_it_is_from(files):
    _, checkpoint, manifest, folder = files
    port_weights(checkpoint, manifest, folder / "flax.safetensors")
    with safe_open(folder / "flax.safetensors", "numpy") as file:
        metadata = file.metadata()
        assert set(file.keys()) == {"params/wte/embedding"} | {
            f"params/blocks_{i}/fc/{n}" for i in (0, 1) for n in ("kernel", "bias")
        }
    assert metadata["format"] == "flax" and metadata["migrate_model"] == "LM"
    assert metadata["migrate_source"] == "ckpt.pt" and len(metadata["migrate_manifest_sha256"]) == 64


def text(report) -> str:
    console = Console(file=io.StringIO(), width=160)
    report.render(console)
    return console.file.getvalue()


def test_the_report(files):
    _, checkpoint, manifest, folder = files
    report = port_weights(checkpoint, manifest, folder / "flax.safetensors")
    assert report.tensors == 5 and report.nbytes == 4 * (28 + 16 + 4 + 24 + 6)
    lines = " ".join(text(report).split())
    for words in (
        "blocks.{0}.fc.weight params/blocks_{0}/fc/kernel permute 1 0 (4, ?) float32 2",
        "not needed: blocks.1.mask (recomputed in setup)",
        "tied: head.weight is wte.weight",
        "note: taken from 'model' of the file",
        "5 tensors, 312 bytes",
        "every key used, every leaf filled; written to",
    ):
        assert words in lines, lines
    back = port_weights(folder / "flax.safetensors", manifest, folder / "b.pt", reverse=True)
    assert "strict=False" in text(back)


def test_a_dry_run_writes_nothing(files):
    _, checkpoint, manifest, folder = files
    before = sorted(folder.iterdir())
    report = port_weights(checkpoint, manifest, folder / "flax.safetensors", dry_run=True)
    assert report.out is None and "nothing was written" in text(report)
    assert port_weights(checkpoint, manifest, None, dry_run=True).tensors == 5
    assert sorted(folder.iterdir()) == before


def test_another_type(files):
    net, checkpoint, manifest, folder = files
    port_weights(checkpoint, manifest, folder / "f.safetensors", dtype="bfloat16")
    found = load_file(folder / "f.safetensors")["params/wte/embedding"]
    assert found.dtype.name == "bfloat16"
    expected = net.wte.weight.detach().to(torch.bfloat16)
    assert found.tobytes() == bytes(expected.view(torch.uint8).reshape(-1).tolist())
    port_weights(folder / "f.safetensors", manifest, folder / "b.npz", reverse=True, dtype="float64")
    assert np.load(folder / "b.npz")["wte.weight"].dtype == np.float64


def test_wide_types_are_kept_and_said(files):
    _, checkpoint, manifest, folder = files
    torch.save({name: tensor.double() for name, tensor in Net().state_dict().items()}, checkpoint)
    report = port_weights(checkpoint, manifest, folder / "f.safetensors")
    assert report.rows[0].dtype == "float64" and "JAX narrows" in text(report)


def test_prefixes_are_taken_off_and_said(files):
    net, checkpoint, manifest, folder = files
    torch.save({f"module._orig_mod.{name}": tensor for name, tensor in net.state_dict().items()}, checkpoint)
    lines = text(port_weights(checkpoint, manifest, folder / "f.safetensors"))
    assert "the prefix '_orig_mod.' was taken off the keys" in lines and "'module.'" in lines


def test_an_output_is_all_or_nothing(files):
    _, checkpoint, manifest, folder = files
    (folder / "f.safetensors").write_text("old")
    torch.save({"wte.weight": torch.ones(7, 4)}, checkpoint)
    error = fails("WPT102", checkpoint, manifest, folder / "f.safetensors", words=["2 problems"])
    assert error.exit_code == 1 and (folder / "f.safetensors").read_text() == "old"
    state = Net().state_dict() | {"head.weight": torch.ones(7, 4)}
    torch.save(state, checkpoint)
    fails("WPT105", checkpoint, manifest, folder / "f.safetensors")
    torch.save(Net().state_dict() | {"blocks.0.fc.bias": torch.full((4,), 1e9)}, checkpoint)
    fails("WPT106", checkpoint, manifest, folder / "f.safetensors", dtype="float16", words=["blocks.0.fc.bias"])
    assert (folder / "f.safetensors").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["ckpt.pt", "f.safetensors", "weights.json"]


def test_bad_arguments(files):
    _, checkpoint, manifest, folder = files
    fails("WPT009", checkpoint, manifest, folder / "f.h5", words=[".safetensors, .msgpack, .npz"])
    fails("WPT009", checkpoint, manifest, folder / "f.pt", words=["Flax weights are not kept as .pt"])
    fails("WPT009", checkpoint, manifest, None, words=["--dry-run"])
    fails("WPT009", checkpoint, manifest, folder / "f.npz", dtype="int8", words=["'int8' is not a floating-point type"])
    fails("WPT008", checkpoint, manifest, folder / "f.npz", model="ML")
    fails("WPT004", checkpoint, manifest, folder / "f.npz", key="ema")
    fails("WPT001", folder / "none.pt", manifest, folder / "f.npz")
    fails("WPT001", checkpoint, folder / "none.json", folder / "f.npz", words=["none.json"])
    fails("WPT007", checkpoint, checkpoint, folder / "f.npz", words=["ckpt.pt"])
    data = json.loads(manifest.read_text())
    data["models"][0]["leaves"][1]["moves"] = [["permut", 1, 0]]
    manifest.write_text(json.dumps(data))
    fails(
        "WPT007", checkpoint, manifest, folder / "f.npz", words=["models[0].leaves[1].moves[0]: unknown move 'permut'"]
    )


def test_an_input_is_never_overwritten(files):
    _, checkpoint, manifest, folder = files
    port_weights(checkpoint, manifest, folder / "flax.safetensors")
    before = (folder / "flax.safetensors").read_bytes()
    fails(
        "WPT009", folder / "flax.safetensors", manifest, folder / "flax.safetensors", reverse=True, words=["an input"]
    )
    (folder / "link.safetensors").symlink_to(folder / "flax.safetensors")
    fails("WPT009", folder / "flax.safetensors", manifest, folder / "link.safetensors", reverse=True)
    assert (folder / "flax.safetensors").read_bytes() == before


@pytest.mark.parametrize("suffix", [".safetensors", ".msgpack", ".npz"])
@pytest.mark.parametrize("kind", [".pt", ".safetensors"])
def test_tensors_pass_one_by_one(tmp_path, kind, suffix):
    """Sixteen tensors of 4 MiB: no more than one is in memory at any time (the file itself is mapped, not read)."""
    size = 4 * 2**20
    state = {f"fc.{i}.weight": torch.full((1024, 1024), float(i)) for i in range(16)}
    if kind == ".pt":
        torch.save(state, tmp_path / "m.pt")
    else:
        from safetensors.torch import save_file

        save_file(state, tmp_path / "m.safetensors")
    model = ModelWeights("Net", (Leaf("params/fc_{0}/kernel", "fc.{0}.weight", SWAP, (1024, 1024)),))
    manifests.write(Manifest("train.py", "linen", (model,)), tmp_path / "weights.json")
    port_weights(
        tmp_path / f"m{kind}", tmp_path / "weights.json", None, dry_run=True
    )  # imports are not what is measured
    tracemalloc.start()
    try:
        port_weights(tmp_path / f"m{kind}", tmp_path / "weights.json", tmp_path / f"f{suffix}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < peak < 2 * size
    assert (tmp_path / f"f{suffix}").stat().st_size > 16 * size


def test_a_tensor_larger_than_a_slab_is_never_in_memory_whole(tmp_path, monkeypatch):
    from weight_port import views

    monkeypatch.setattr(views, "SLAB", 2**18)
    torch.save({"w": torch.arange(2.0**21).reshape(2048, 1024)}, tmp_path / "m.pt")  # 8 MiB
    model = ModelWeights("Net", (Leaf("params/kernel", "w", SWAP, (1024, 2048)),))
    manifests.write(Manifest("train.py", "linen", (model,)), tmp_path / "weights.json")
    port_weights(tmp_path / "m.pt", tmp_path / "weights.json", None, dry_run=True)
    tracemalloc.start()
    try:
        port_weights(tmp_path / "m.pt", tmp_path / "weights.json", tmp_path / "f.safetensors")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**21  # a slab has at least 128 rows, here 1 MiB
    np.testing.assert_array_equal(
        load_file(tmp_path / "f.safetensors")["params/kernel"], np.arange(2.0**21, dtype="f").reshape(2048, 1024).T
    )


def test_neither_torch_nor_jax_is_imported(files):
    _, checkpoint, manifest, folder = files
    code = (
        "import sys, weight_port\n"
        f"weight_port.port_weights({str(checkpoint)!r}, {str(manifest)!r}, {str(folder / 'f.msgpack')!r})\n"
        "print(sorted({'torch', 'jax', 'flax', 'libcst'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

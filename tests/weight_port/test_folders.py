"""Folders: Orbax restores what was written, shards are those of Hugging Face, a mesh cuts, a run goes on."""

import json
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
from safetensors import safe_open

from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights
from weight_port import PortError, open_checkpoint, port_weights, staging, store
from weight_port.outputs import Outputs

ARRAYS = {
    "params/0/kernel": np.arange(24, dtype=np.float32).reshape(4, 6).T,
    "params/0/bias": np.array([1.5, np.nan, -0.0]).astype(ml_dtypes.bfloat16),
    "params/1/tiny": np.arange(4).astype(ml_dtypes.float8_e4m3fn),
    "params/scalar": np.array(2.5, np.float32),
    "batch_stats/flags": np.array([True, False]),
    "batch_stats/z": np.array([1 + 2j], np.complex64),
    "batch_stats/count": np.array(2**40, np.int64),
}
NAMES = [f"layers.{i}.weight" for i in range(6)]
NET = Manifest(
    "n.py",
    "linen",
    (ModelWeights("N", tuple(Leaf(f"params/{i}/k", n, (Permute((1, 0)),)) for i, n in enumerate(NAMES))),),
)


@pytest.fixture
def checkpoint(tmp_path):
    torch.manual_seed(0)
    state = {name: torch.randn(8, 4) for name in NAMES}
    torch.save(state, tmp_path / "m.pt")
    return state, tmp_path / "m.pt", tmp_path


def leaves(tree, prefix=""):
    return {
        p: a
        for k, v in tree.items()
        for p, a in (leaves(v, f"{prefix}{k}/") if isinstance(v, dict) else {prefix + k: v}).items()
    }


def test_orbax_restores_it_and_it_is_read_back(tmp_path):
    store.write(tmp_path / "ckpt", Outputs.of(ARRAYS), store.Options({}))
    with ocp.StandardCheckpointer() as checkpointer:
        found = leaves(checkpointer.restore(tmp_path / "ckpt"))
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and np.asarray(found[name]).tobytes() == array.tobytes(), name
    infos, read = store.read(tmp_path / "ckpt")
    assert all(
        read(name).tobytes() == array.tobytes() and infos[name].dtype == array.dtype for name, array in ARRAYS.items()
    )
    assert os.listdir(tmp_path) == ["ckpt"]


@pytest.mark.parametrize("ocdbt", [True, False])
def test_what_orbax_wrote_is_read(tmp_path, ocdbt):
    tree = {"params": {"0": {"kernel": np.ones((2, 3), np.float32)}, "b": np.zeros(2, ml_dtypes.bfloat16)}}
    ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt)).save(tmp_path / "ckpt", tree)
    infos, read = store.read(tmp_path / "ckpt")
    assert {name: info.shape for name, info in infos.items()} == {"params/0/kernel": (2, 3), "params/b": (2,)}
    np.testing.assert_array_equal(read("params/0/kernel"), tree["params"]["0"]["kernel"])


def test_a_mesh_cuts_the_leaves_as_the_devices_hold_them(checkpoint):
    state, path, folder = checkpoint
    (folder / "mesh.json").write_text('{"axes": {"data": 2, "model": 4}, "rules": [["params/*/k", [null, "model"]]]}')
    port_weights(path, NET, folder / "ckpt", mesh=folder / "mesh.json")
    assert json.loads((folder / "ckpt" / "params.0.k" / ".zarray").read_text())["chunks"] == [4, 2]
    assert sorted(os.listdir(folder / "ckpt" / "params.0.k")) == [".zarray", "0.0", "0.1", "0.2", "0.3"]
    code = """if True:
        import os, sys
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
        import jax, numpy as np, orbax.checkpoint as ocp
        mesh = jax.make_mesh((2, 4), ("data", "model"))
        place = jax.NamedSharding(mesh, jax.P(None, "model"))
        target = {"params": {str(i): {"k": jax.ShapeDtypeStruct((4, 8), np.float32, sharding=place)} for i in range(6)}}
        found = ocp.StandardCheckpointer().restore(sys.argv[1], target)
        for i in range(6):
            shards = found["params"][str(i)]["k"].addressable_shards
            assert len(shards) == 8 and {s.data.shape for s in shards} == {(4, 2)}
        np.save(sys.argv[2], np.stack([found["params"][str(i)]["k"] for i in range(6)]))
    """
    arguments = [sys.executable, "-W", "ignore", "-c", code, str(folder / "ckpt"), str(folder / "found.npy")]
    subprocess.run(arguments, check=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
    np.testing.assert_array_equal(np.load(folder / "found.npy"), np.stack([state[name].numpy().T for name in NAMES]))


@pytest.mark.parametrize(
    ("mesh", "code", "word"),
    [
        ('{"axes": {"model": 3}, "rules": [["*", [null, "model"]]]}', "WPT103", "3 equal parts"),
        ('{"axes": {"model": 2}, "rules": [["*", ["modle"]]]}', "WPT007", "modle"),
        ('{"rules": []}', "WPT007", "axes"),
        ('{"axes": {"model": 2}, "rules": [["*", [null, null, "model"]]]}', "WPT103", "2 axes"),
    ],
)
def test_a_mesh_that_does_not_fit(checkpoint, mesh, code, word):
    _, path, folder = checkpoint
    (folder / "mesh.json").write_text(mesh)
    with pytest.raises(PortError) as caught:
        port_weights(path, NET, folder / "ckpt", mesh=folder / "mesh.json")
    assert caught.value.code == code and word in str(caught.value)
    assert sorted(os.listdir(folder)) == ["m.pt", "mesh.json"]


def test_shards_and_the_way_back_into_a_folder(checkpoint):
    state, path, folder = checkpoint
    port_weights(path, NET, folder / "flax", shard_size=300)
    port_weights(folder / "flax", NET, folder / "torch", reverse=True, shard_size=300)
    names = [f"model-{i:05}-of-00003.safetensors" for i in (1, 2, 3)]
    assert sorted(os.listdir(folder / "torch")) == [*names, "model.safetensors.index.json"]
    found = open_checkpoint(folder / "torch" / "model.safetensors.index.json")
    assert set(found) == set(NAMES) and all(np.array_equal(found.read(n), state[n].numpy()) for n in NAMES)
    with safe_open(folder / "torch" / names[0], "numpy") as file:
        assert list(file.keys()) == NAMES[:2]


class Stopped(Exception): ...


def stop_after(nbytes):
    def progress(done, total):
        assert done <= total == 6 * 128
        if done > nbytes:
            raise Stopped

    return progress


def test_an_interrupted_run_leaves_nothing(checkpoint):
    _, path, folder = checkpoint
    for target in ("ckpt", "w.safetensors"):
        with pytest.raises(Stopped):
            port_weights(path, NET, folder / target, progress=stop_after(300))
    assert os.listdir(folder) == ["m.pt"]


def test_a_run_goes_on_where_it_stopped(checkpoint):
    state, path, folder = checkpoint
    with pytest.raises(Stopped):
        port_weights(path, NET, folder / "ckpt", resume=True, progress=stop_after(300))
    assert sorted(os.listdir(folder)) == [".ckpt.partial", "m.pt"]
    kept = (folder / ".ckpt.partial" / "params.0.k" / "0.0").stat().st_ino
    done = []
    port_weights(path, NET, folder / "ckpt", resume=True, progress=lambda now, total: done.append(now))
    assert done[0] == 128 and done[-1] == 6 * 128
    assert (folder / "ckpt" / "params.0.k" / "0.0").stat().st_ino == kept
    _, read = store.read(folder / "ckpt")
    assert all(np.array_equal(read(f"params/{i}/k"), state[name].numpy().T) for i, name in enumerate(NAMES))
    assert staging.JOURNAL not in os.listdir(folder / "ckpt")


def test_what_another_checkpoint_left_is_not_taken(checkpoint):
    state, path, folder = checkpoint
    with pytest.raises(Stopped):
        port_weights(path, NET, folder / "ckpt", resume=True, progress=stop_after(300))
    torch.save({name: tensor + 1 for name, tensor in state.items()}, path)
    port_weights(path, NET, folder / "ckpt", resume=True)
    _, read = store.read(folder / "ckpt")
    assert np.array_equal(read("params/0/k"), state[NAMES[0]].numpy().T + 1)


@pytest.mark.parametrize(
    ("target", "options", "word"),
    [
        ("m2", {"exists": True}, "exists already"),
        ("w.npz", {"shard_size": 100}, "shards need a folder"),
        ("w.npz", {"resume": True}, "only a folder"),
        ("x.h5", {}, "cannot tell the format"),
    ],
)
def test_outputs_that_are_refused(checkpoint, target, options, word):
    _, path, folder = checkpoint
    if options.pop("exists", False):
        (folder / target).mkdir()
        (folder / target / "mine").write_text("x")
    with pytest.raises(PortError) as caught:
        port_weights(path, NET, folder / target, **options)
    assert caught.value.code == "WPT009" and word in str(caught.value)


def test_empty_tensors_are_refused_by_orbax(tmp_path):
    with pytest.raises(PortError) as caught:
        store.write(tmp_path / "c", Outputs.of({"params/x": np.empty((0, 3))}), store.Options({}))
    assert caught.value.code == "WPT009" and os.listdir(tmp_path) == []


def test_a_full_disk_is_a_clear_error(checkpoint, monkeypatch):
    _, path, folder = checkpoint

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(store, "write_orbax", full)
    monkeypatch.setattr(store, "write_msgpack", full)
    for name in ("ckpt", "w.msgpack"):
        with pytest.raises(PortError) as caught:
            port_weights(path, NET, folder / name)
        assert (
            caught.value.code == "WPT010" and "No space left" in str(caught.value) and "768 bytes" in str(caught.value)
        )
    assert os.listdir(folder) == ["m.pt"]


def test_types_by_pattern(checkpoint):
    _, path, folder = checkpoint
    rules = [("params/0/*", "keep"), ("params/[12]/*", "float16")]
    port_weights(path, NET, folder / "w.safetensors", dtype="bfloat16", dtype_rules=rules)
    infos, _ = store.read(folder / "w.safetensors")
    names = [infos[f"params/{i}/k"].dtype.name for i in range(4)]
    assert names == ["float32", "float16", "float16", "bfloat16"]

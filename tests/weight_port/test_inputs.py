"""What else holds weights: distributed checkpoints, npz, folders as Hugging Face lays them out, wrapped keys."""

import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

from weight_port import PortError, npz_files, open_checkpoint, pickles
from weight_port.dcp_files import Pieced


def fails(path, code, *words):
    with pytest.raises(PortError) as caught:
        open_checkpoint(path)
    assert caught.value.code == code, caught.value
    assert all(word in str(caught.value) for word in words), caught.value


# --- distributed checkpoints ------------------------------------------------------------------------------------------


@pytest.fixture
def distributed(tmp_path):
    state = {"fc.weight": torch.randn(4, 3), "half": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": state, "step": 7}, checkpoint_id=tmp_path / "d", no_dist=True)
    return state, tmp_path / "d"


def test_distributed(distributed):
    state, path = distributed
    checkpoint = open_checkpoint(path)
    assert checkpoint.format == "torch distributed checkpoint" and checkpoint.key == "model"
    assert set(checkpoint) == set(state)
    assert np.array_equal(checkpoint.read("fc.weight"), state["fc.weight"].numpy())
    assert checkpoint["half"].dtype.name == "bfloat16"


def test_distributed_in_pieces(tmp_path):
    """Two processes, each with half of the rows: written by hand, as several processes are not at hand."""
    from torch.distributed.checkpoint import metadata as md
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    whole = torch.arange(24.0).reshape(6, 4)
    chunks = [md.ChunkStorageMetadata(torch.Size([i, 0]), torch.Size([3, 4])) for i in (0, 3)]
    entry = md.TensorStorageMetadata(md.TensorProperties(dtype=torch.float32), torch.Size([6, 4]), chunks)
    places = {}
    for rank, chunk in enumerate(chunks):
        start = chunk.offsets[0]
        torch.save(whole[start : start + 3].clone(), tmp_path / f"__{rank}_0.distcp")
        length = (tmp_path / f"__{rank}_0.distcp").stat().st_size
        places[md.MetadataIndex("w", chunk.offsets)] = _StorageInfo(f"__{rank}_0.distcp", 0, length)

    def written(entry=entry, places=places):
        made = md.Metadata({"w": entry}, planner_data={"w": ("w",)}, storage_data=places)
        (tmp_path / ".metadata").write_bytes(pickle.dumps(made))

    written()
    checkpoint = open_checkpoint(tmp_path)
    assert isinstance(checkpoint.stored["w"], Pieced)
    np.testing.assert_array_equal(checkpoint.read("w"), whole.numpy())
    written(places=dict(list(places.items())[:1]))
    fails(tmp_path, "WPT003", "do not make up")
    first = next(iter(places))
    written(places=places | {first: _StorageInfo("../x.distcp", 0, 10)})
    fails(tmp_path, "WPT003", "outside of the folder")
    written(places=places | {first: _StorageInfo("__0_0.distcp", 0, 10**9)})
    fails(tmp_path, "WPT003", "ends within")


def test_distributed_metadata_is_not_executed(distributed):
    _, path = distributed

    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(path / "executed"),)

    (path / ".metadata").write_bytes(pickle.dumps({"state_dict_metadata": Hostile()}))
    fails(path, "WPT003", "distributed checkpoint")
    assert not (path / "executed").exists()


# --- npz --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    arrays = {
        "params/Transformer/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.arange(4, dtype=">i4"),
        "scalar": np.array(3, np.int64),
        "empty": np.empty((0, 2)),
    }
    save(tmp_path / "m.npz", objects=np.array([{}], object), **arrays)
    checkpoint = open_checkpoint(tmp_path / "m.npz")
    assert set(checkpoint) == set(arrays) and "object" in checkpoint.opaque["objects"]
    for name, array in arrays.items():
        assert np.array_equal(checkpoint.read(name), array) and checkpoint.read(name).shape == array.shape


def test_npz_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(npz_files, "INFLATED_LIMIT", 2**24)
    with (
        zipfile.ZipFile(tmp_path / "m.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w", force_zip64=True) as entry,
    ):
        np.lib.format.write_array_header_1_0(entry, {"shape": (2**22,), "fortran_order": False, "descr": "<f8"})
        entry.write(bytes(2**25))
    fails(tmp_path / "m.npz", "WPT006", "33,554,")
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive, archive.open("a.npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array_header_1_0(entry, {"shape": (2**40,), "fortran_order": False, "descr": "<f8"})
    fails(tmp_path / "m.npz", "WPT003", "claims the shape")


# --- folders and prefixes ---------------------------------------------------------------------------------------------


def test_a_folder_of_hugging_face(tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    torch.save({"other": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    assert list(open_checkpoint(tmp_path)) == ["w"]
    # diffusers keeps another precision beside it, and several models in the folders of a pipeline
    (tmp_path / "pipeline" / "unet").mkdir(parents=True)
    (tmp_path / "pipeline" / "unet" / "config.json").write_text("{}")
    fails(tmp_path / "pipeline", "WPT001", "holds unet")
    for name in ("diffusion_pytorch_model.fp16.safetensors", "diffusion_pytorch_model.safetensors"):
        save_file({name.partition(".")[2]: torch.ones(2)}, tmp_path / "pipeline" / "unet" / name)
    assert list(open_checkpoint(tmp_path / "pipeline" / "unet")) == ["safetensors"]


def test_the_prefix_of_a_module_that_holds_the_model(tmp_path):
    torch.save({"state_dict": {"model._orig_mod.fc.weight": torch.ones(1)}}, tmp_path / "m.ckpt")
    checkpoint = open_checkpoint(tmp_path / "m.ckpt", expected=["fc.weight"])
    assert list(checkpoint) == ["fc.weight"] and checkpoint.stripped == ("_orig_mod.", "model.")
    assert any("'model.'" in note for note in checkpoint.notes())
    assert list(open_checkpoint(tmp_path / "m.ckpt", expected=["model.fc.weight"])) == ["model.fc.weight"]


def test_a_module_that_holds_the_model_may_have_weights_of_its_own(tmp_path):
    torch.save({"model.fc.weight": torch.ones(1), "weight_of_the_loss": torch.ones(1)}, tmp_path / "m.ckpt")
    found = open_checkpoint(tmp_path / "m.ckpt", expected=["fc.{0}", "fc.weight"])
    assert list(found) == ["fc.weight", "weight_of_the_loss"] and found.stripped == ("model.",)
    both = open_checkpoint(tmp_path / "m.ckpt", expected=["fc.weight", "weight_of_the_loss"])
    assert list(both) == ["model.fc.weight", "weight_of_the_loss"]  # one of the model's own is of that name


def test_a_moving_average_is_chosen_by_name(tmp_path):
    state = {"w": torch.ones(2)}
    torch.save({"model": state, "ema": {"w": torch.zeros(2)}, "epoch": 1}, tmp_path / "m.pt")
    fails(tmp_path / "m.pt", "WPT004", "--key model", "--key ema")
    assert open_checkpoint(tmp_path / "m.pt", key="ema").read("w")[0] == 0


# --- hostile files ----------------------------------------------------------------------------------------------------


def test_budgets(monkeypatch):
    for name, program, word in (
        ("INSTRUCTIONS", b"]" + b"K\x010" * 200 + b".", "instructions"),
        ("MEMO", b"]" + b"".join(b"q" + bytes([i]) for i in range(200)) + b".", "objects"),
        ("DEPTH", b"(" * 200 + b"t" * 200 + b".", "nests deeper"),
    ):
        pickles.loads(program)
        monkeypatch.setattr(pickles, name, 100)
        with pytest.raises(pickle.UnpicklingError, match=word):
            pickles.loads(program)
        monkeypatch.undo()


def test_a_key_whose_hash_would_take_for_ever():
    nested = b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
    for program in (b"}" + nested + b"K\x01s.", b"\x8f(" + nested + b"\x90.", b"(" + nested + b"\x91."):
        with pytest.raises(pickle.UnpicklingError, match="tuple of tuples"):
            pickles.loads(b"\x80\x04" + program)


def test_exponentially_many_ways_to_one_dict(tmp_path):
    node: object = {"w": torch.ones(2)}
    for _ in range(5):
        node = {f"k{i}": node for i in range(200)}
    torch.save(node, tmp_path / "m.pt")
    assert list(open_checkpoint(tmp_path / "m.pt")) == ["w"]


def test_attributes_of_tensors_cannot_be_set():
    build = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
    build += b"X\x03\x00\x00\x00cpuK\x01tQK\x00K\x01\x85K\x01\x85tR}X\x05\x00\x00\x00shapeX\x01\x00\x00\x00xsb."
    assert pickles.loads(b"\x80\x02" + build).shape == (1,)


@pytest.mark.parametrize("name", ["/etc/passwd", "../s.safetensors", "a/b.safetensors", "..", "", "a\\b"])
def test_shards_elsewhere(tmp_path, name):
    (tmp_path / "m.index.json").write_text(__import__("json").dumps({"weight_map": {"a": name}}))
    (tmp_path / "m.index.json").rename(tmp_path / "model.safetensors.index.json")
    fails(tmp_path / "model.safetensors.index.json", "WPT003", "does not lie beside it")


def test_names_that_stand_twice(tmp_path):
    entry = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [%d, %d]}'
    header = ("{" + entry % (0, 4) + ", " + entry % (4, 8) + "}").encode()
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    fails(tmp_path / "m.safetensors", "WPT003", "stands twice")
    (tmp_path / "m.json").write_text('{"weight_map": {"a": "x", "a": "y"}}')
    fails(tmp_path / "m.json", "WPT002", "stands twice")


@pytest.mark.parametrize("offsets", [((0, 8), (4, 12)), ((0, 4), (8, 12)), ((0, 4), (4, 2**40)), ((0, 4.0), (4, 8))])
def test_safetensors_that_overlap_or_reach_outside(tmp_path, offsets):
    import json

    entries = {n: {"dtype": "F32", "shape": [1], "data_offsets": o} for n, o in zip("ab", offsets, strict=True)}
    header = json.dumps(entries).encode()
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(12))
    fails(tmp_path / "m.safetensors", "WPT003")


def test_records_over_each_other(tmp_path):
    torch.save({"a": torch.ones(64), "b": torch.zeros(64)}, tmp_path / "m.pt")
    data = bytearray((tmp_path / "m.pt").read_bytes())
    with zipfile.ZipFile(tmp_path / "m.pt") as archive:
        one, other = (next(r for r in archive.infolist() if r.filename.endswith(f"data/{i}")) for i in "01")
    directory = data.rindex(other.filename.encode()) - 46
    assert data[directory : directory + 4] == b"PK\x01\x02"
    data[directory + 42 : directory + 46] = one.header_offset.to_bytes(4, "little")
    (tmp_path / "m.pt").write_bytes(data)
    fails(tmp_path / "m.pt", "WPT003")


def test_an_average(tmp_path):
    model = torch.nn.Linear(2, 2)
    torch.save(torch.optim.swa_utils.AveragedModel(model).state_dict(), tmp_path / "m.pt")
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    assert set(checkpoint) == {"weight", "bias"} and checkpoint.left_out == ("n_averaged",)
    assert any("n_averaged is left out" in note for note in checkpoint.notes())
    own = open_checkpoint(tmp_path / "m.pt", expected=["module.weight", "module.bias", "n_averaged"])
    assert set(own) == {"module.weight", "module.bias", "n_averaged"}


@pytest.mark.parametrize("dtype", [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz,
    torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
], ids=str)  # fmt: skip
@pytest.mark.parametrize("legacy", [False, True])
def test_every_type_however_it_lies(tmp_path, dtype, legacy):
    """Bits of every type: contiguous, strided, expanded, shared, empty and scalar."""
    bits = torch.arange(48, dtype=torch.uint8)
    whole = (bits % 2).bool() if dtype == torch.bool else bits.view(dtype)
    whole = whole[:3].reshape(1, 3) if whole.numel() < 6 else whole[:6].reshape(2, 3)
    state = {"whole": whole, "turned": whole.t(), "row": whole[-1], "wide": whole[:1].expand(4, 3),
             "empty": whole[:0], "scalar": whole[0, 0]}  # fmt: skip
    torch.save(state, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy)
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    for name, tensor in state.items():
        found = checkpoint.read(name)
        assert found.shape == tuple(tensor.shape) and found.dtype.name == str(dtype).removeprefix("torch.")
        plain = tensor.contiguous().reshape(-1)
        expected = plain.numpy().tobytes() if dtype == torch.bool else plain.view(torch.uint8).numpy().tobytes()
        assert found.tobytes() == expected

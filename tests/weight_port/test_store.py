"""Written files hold the bits that were given, in the formats that flax, safetensors, numpy and torch read."""

import os
import struct

import flax.serialization
import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from weight_port import PortError, TensorInfo, msgpack_files, store, views
from weight_port.outputs import Outputs
from weight_port.views import slabs

FLAX = {
    "params/conv/kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1),
    "params/conv/bias": np.array([1.5, -0.0, np.nan]),
    "params/empty": np.empty((0, 3), np.float16),
    "params/wide": np.arange(300, dtype=np.int64),
    "params/wider": np.arange(70_000, dtype=np.int32).reshape(7, -1)[:, ::-1],
    "batch_stats/count": np.array(7, np.int8),
    "batch_stats/flags": np.array([True, False]),
    "batch_stats/z": np.array([1 + 2j], np.complex64),
}
EXTENDED = {
    "params/half": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3).T,
    "params/tiny": np.arange(4).astype(ml_dtypes.float8_e4m3fn),
}


def infos(arrays) -> dict[str, TensorInfo]:
    return {name: TensorInfo(array.shape, array.dtype) for name, array in arrays.items()}


def write(path, arrays, metadata=(), same_as=None) -> None:
    store.write(
        path, Outputs.of(arrays) if same_as is None else Outputs.of(arrays, same_as), store.Options(dict(metadata))
    )


def same(one, other) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def equal(tensor, array) -> bool:
    """Whether a torch tensor has the type, shape and bits of an array."""
    raw = bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""
    return (str(tensor.dtype), tuple(tensor.shape), raw) == (f"torch.{array.dtype}", array.shape, array.tobytes())


@pytest.mark.parametrize("suffix", store.FLAX_FORMATS)
def test_written_and_read_back(tmp_path, suffix):
    arrays = FLAX if suffix == ".npz" else FLAX | EXTENDED
    write(tmp_path / f"w{suffix}", arrays)
    known, read = store.read(tmp_path / f"w{suffix}")
    assert known == infos(arrays)
    assert all(same(read(name), array) for name, array in arrays.items())
    assert os.listdir(tmp_path) == [f"w{suffix}"]


def test_safetensors_are_those_of_the_library(tmp_path):
    write(tmp_path / "w.safetensors", FLAX | EXTENDED, {"format": "flax", "b": "ü"})
    found = load_file(tmp_path / "w.safetensors")
    assert found.keys() == (FLAX | EXTENDED).keys()
    assert all(equal(tensor, (FLAX | EXTENDED)[name]) for name, tensor in found.items())
    data = (tmp_path / "w.safetensors").read_bytes()
    assert struct.unpack("<Q", data[:8])[0] % 8 == 0
    # the same weights give the same file
    write(tmp_path / "again.safetensors", dict(reversed((FLAX | EXTENDED).items())), {"b": "ü", "format": "flax"})
    assert (tmp_path / "again.safetensors").read_bytes() == data


def nested(flat) -> dict:
    tree: dict = {}
    for path, array in flat.items():
        *parents, name = path.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = array
    return tree


def test_msgpack_is_that_of_flax(tmp_path):
    write(tmp_path / "w.msgpack", FLAX | EXTENDED)
    assert (tmp_path / "w.msgpack").read_bytes() == flax.serialization.to_bytes(nested(FLAX | EXTENDED))


def test_msgpack_of_every_length(tmp_path):
    """The length of an extension is written in five ways, that of its bytes in three."""
    for length in (*range(40), 240, 250, 255, 256, 65_520, 65_540):
        arrays = {"params/x": np.zeros(length, np.uint8)}
        write(tmp_path / "w.msgpack", arrays)
        assert (tmp_path / "w.msgpack").read_bytes() == flax.serialization.to_bytes(nested(arrays)), length


def test_numbers_beside_the_arrays_of_a_msgpack(tmp_path):
    """As a training loop saves them; of arrays no byte is read before it is asked for."""
    saved = {"epoch": -3, "best": 0.5, "steps": 70_000, "w": np.ones((2, 3), np.float32), "s": np.float32(2)}
    (tmp_path / "w.msgpack").write_bytes(flax.serialization.to_bytes(saved))
    known, read = store.read(tmp_path / "w.msgpack")
    assert {name: np.asarray(read(name)).tolist() for name in known} == {**saved, "w": [[1] * 3] * 2, "s": 2}
    assert not read("w").flags.owndata


def test_msgpack_splits_large_arrays_as_flax_does(tmp_path, monkeypatch):
    monkeypatch.setattr(msgpack_files, "CHUNK", 100)
    monkeypatch.setattr(flax.serialization, "MAX_CHUNK_SIZE", 100)
    arrays = {"params/x": np.arange(120.0).reshape(10, 12).T, "params/y": np.arange(12.0), "params/z": np.ones(2)}
    write(tmp_path / "w.msgpack", arrays)
    assert (tmp_path / "w.msgpack").read_bytes() == flax.serialization.to_bytes(nested(arrays))
    _, read = store.read(tmp_path / "w.msgpack")
    assert all(same(read(name), array) for name, array in arrays.items())


def test_npz_is_that_of_numpy(tmp_path):
    write(tmp_path / "w.npz", FLAX)
    with np.load(tmp_path / "w.npz", allow_pickle=False) as archive:
        assert set(archive) == set(FLAX) and all(same(archive[name], FLAX[name]) for name in archive)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_torch_reads_its_own(tmp_path, suffix):
    arrays = dict((FLAX | EXTENDED).items())
    arrays["tied"] = arrays["params/conv/bias"]
    write(tmp_path / f"w{suffix}", arrays, same_as={"tied": "params/conv/bias"})
    state = torch.load(tmp_path / f"w{suffix}", weights_only=True)
    assert list(state) == list(arrays)
    assert all(equal(tensor, arrays[name]) for name, tensor in state.items())
    assert state["tied"].data_ptr() == state["params/conv/bias"].data_ptr()


@pytest.mark.parametrize(("limit", "tile"), [(16, (1, 2)), (64, (2, 4)), (1000, (3, 5)), (2**22, (128, 256))])
def test_slabs_are_the_row_major_bytes(monkeypatch, limit, tile):
    monkeypatch.setattr(views, "SLAB", limit)
    monkeypatch.setattr(views, "LARGEST_SLAB", limit)
    monkeypatch.setattr(views, "TILE", tile)
    wide = np.arange(60 * 70 * 8, dtype=np.float32).reshape(60, 70, 8)
    more = (wide.transpose(2, 1, 0), wide[::-1, :, ::2].transpose(1, 0, 2), np.broadcast_to(wide[0, 0], (9, 8)).T)
    for array in (*FLAX.values(), *EXTENDED.values(), np.arange(4, dtype=np.complex128).reshape(2, 2).T, *more):
        pieces = [piece.copy() for piece in slabs(array)]
        assert b"".join(piece.tobytes() for piece in pieces) == array.tobytes()
        assert all(piece.nbytes <= limit for piece in pieces) and all(piece.ndim == 1 for piece in pieces)


def fails(code: str, *words: str):
    class Check:
        def __enter__(self):
            self.raised = pytest.raises(PortError)
            self.info = self.raised.__enter__()

        def __exit__(self, *args):
            assert self.raised.__exit__(*args)
            assert self.info.value.code == code
            assert all(word in str(self.info.value) for word in words)
            return True

    return Check()


def test_types_that_a_format_cannot_hold(tmp_path):
    with fails("WPT009", "bfloat16", "--dtype"):
        write(tmp_path / "w.npz", EXTENDED)
    with fails("WPT009", "complex128"):
        write(tmp_path / "w.safetensors", {"z": np.ones(1, np.complex128)})
    assert os.listdir(tmp_path) == []


def test_nothing_half_written_is_left(tmp_path):
    (tmp_path / "w.npz").write_text("old")

    def read(name):
        if name == "params/empty":
            raise PortError("WPT106", "stop")
        return FLAX[name]

    with fails("WPT106", "stop"):
        store.write(tmp_path / "w.npz", Outputs(infos(FLAX), lambda name, _: slabs(read(name))), store.Options({}))
    assert os.listdir(tmp_path) == ["w.npz"] and (tmp_path / "w.npz").read_text() == "old"


def test_a_place_that_cannot_be_written(tmp_path):
    with fails("WPT010", "No such file or directory"):
        write(tmp_path / "none" / "w.npz", FLAX)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("w.msgpack", b"\xc1", "WPT003"),
        ("w.msgpack", b"\x93\x01\x02\x03", "WPT003"),
        ("w.msgpack", b"\x81\xa1a\xa1b", "WPT003"),
        ("w.msgpack", b"\x82\xa1a\x01\xa1a\x01", "WPT003"),
        ("w.msgpack", b"\x81\xa1a" * 70, "WPT003"),
        ("w.msgpack", b"\x81\xa1a\xd4\x02\x00", "WPT003"),
        ("w.npz", b"no zip", "WPT003"),
        ("w.safetensors", b"short", "WPT003"),
        ("w.h5", b"", "WPT002"),
    ],
)
def test_files_that_hold_no_weights(tmp_path, name, content, code):
    (tmp_path / name).write_bytes(content)
    with fails(code, str(tmp_path / name)):
        store.read(tmp_path / name)


@pytest.mark.parametrize("suffix", store.FLAX_FORMATS)
def test_a_file_that_is_cut_off(tmp_path, suffix):
    path = tmp_path / f"w{suffix}"
    write(path, FLAX)
    path.write_bytes(path.read_bytes()[:-50])
    with fails("WPT003", str(path)):
        store.read(path)


@pytest.mark.parametrize("suffix", store.FLAX_FORMATS)
def test_a_file_that_is_not_there(tmp_path, suffix):
    with fails("WPT001", "cannot open"):
        store.read(tmp_path / f"w{suffix}")

"""Tensors that cannot be views of their file do not have to fit into memory."""

import errno
import os
import pickle
import tracemalloc

import flax.serialization
import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
from torch.distributed.checkpoint import metadata as md
from torch.distributed.checkpoint.filesystem import _StorageInfo

from weight_port import PortError, folded, open_checkpoint, room, store, views

ROWS, COLUMNS = 2048, 512  # 4 MB
WHOLE = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


def in_pieces(folder, _):
    """A distributed checkpoint of two processes."""
    chunks = [md.ChunkStorageMetadata(torch.Size([i, 0]), torch.Size([ROWS // 2, COLUMNS])) for i in (0, ROWS // 2)]
    entry = md.TensorStorageMetadata(md.TensorProperties(dtype=torch.float32), torch.Size([ROWS, COLUMNS]), chunks)
    places = {}
    for rank, chunk in enumerate(chunks):
        torch.save(torch.from_numpy(WHOLE[chunk.offsets[0] :][: ROWS // 2].copy()), folder / f"__{rank}_0.distcp")
        length = (folder / f"__{rank}_0.distcp").stat().st_size
        places[md.MetadataIndex("w", chunk.offsets)] = _StorageInfo(f"__{rank}_0.distcp", 0, length)
    made = md.Metadata({"w": entry}, planner_data={"w": ("w",)}, storage_data=places)
    (folder / ".metadata").write_bytes(pickle.dumps(made))
    checkpoint = open_checkpoint(folder)
    return checkpoint.stored["w"].read, WHOLE


def compressed(folder, _):
    np.savez_compressed(folder / "m.npz", w=np.asfortranarray(WHOLE).astype(">f4", order="F"))
    checkpoint = open_checkpoint(folder / "m.npz")
    return checkpoint.stored["w"].read, WHOLE


def chunked(folder, patch):
    patch.setattr(flax.serialization, "MAX_CHUNK_SIZE", 3 * 10**5)
    (folder / "m.msgpack").write_bytes(flax.serialization.to_bytes({"w": WHOLE}))
    _, read = store.read(folder / "m.msgpack")
    return lambda: read("w"), WHOLE


def of_orbax(folder, _):
    """As Orbax itself writes, compressed, in chunks of 16 kB."""
    with ocp.PyTreeCheckpointer() as saver:
        args = ocp.args.PyTreeSave({"w": WHOLE}, save_args={"w": ocp.SaveArgs(chunk_byte_size=2**17)})
        saver.save(folder / "o", args=args)
    _, read = store.read(folder / "o")
    return lambda: read("w"), WHOLE


def weight_norm(folder, _):
    g = np.linspace(0.5, 2, ROWS)[:, None]
    torch.save({"weight_v": torch.from_numpy(WHOLE + 1), "weight_g": torch.from_numpy(g)}, folder / "m.pt")
    checkpoint = open_checkpoint(folder / "m.pt", fold=True)
    wide = WHOLE.astype(np.float64) + 1
    return checkpoint.stored["weight"].read, (wide * g / np.linalg.norm(wide, axis=1, keepdims=True)).astype("f")


def spectral_norm(folder, _):
    """Of a transposed convolution: the outputs are the second axis."""
    u, v = np.linspace(1, 2, COLUMNS // 4), np.linspace(1, 2, ROWS * 4)
    parts = {"weight_orig": WHOLE.reshape(ROWS, COLUMNS // 4, 4), "weight_u": u, "weight_v": v}
    torch.save({name: torch.from_numpy(part) for name, part in parts.items()}, folder / "m.pt")
    checkpoint = open_checkpoint(folder / "m.pt", fold=True)
    wide = parts["weight_orig"].astype(np.float64)
    sigma = u @ np.moveaxis(wide, 1, 0).reshape(len(u), -1) @ v
    return checkpoint.stored["weight"].read, (wide / sigma).astype("f")


@pytest.mark.parametrize("kind", [in_pieces, compressed, chunked, of_orbax, weight_norm, spectral_norm])
def test_a_tensor_in_parts_is_never_in_memory_whole(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(room, "LARGE", 2**20)
    monkeypatch.setattr(folded, "_ROWS", 2**14)
    monkeypatch.setattr(views, "SLAB", 2**18)
    read, expected = kind(tmp_path, monkeypatch)
    read()  # imports are not what is measured
    tracemalloc.start()
    try:
        found = read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < WHOLE.nbytes / 2
    np.testing.assert_allclose(found, expected, rtol=1e-7)  # what is folded: one rounding of 6e-8
    assert found.dtype == np.float32


def test_the_last_one_is_kept(tmp_path, monkeypatch):
    """For a mesh: every chunk of it is asked for by itself."""
    in_pieces(tmp_path, monkeypatch)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.read("w") is checkpoint.read("w")


def test_no_room_on_the_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    read, _ = in_pieces(tmp_path, monkeypatch)
    monkeypatch.setattr(room, "LARGE", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(PortError, match="No space left") as caught:
        read()
    assert caught.value.code == "WPT010" and "TMPDIR" in caught.value.help

"""Every kind of checkpoint gives the keys, shapes, types and bits that torch gives; every bad file one clear error."""

import io
import json
import struct
import zipfile
from collections import OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from weight_port import PortError, open_checkpoint


def bits(array) -> bytes:
    if isinstance(array, torch.Tensor):
        array = array.detach().contiguous()
        return bytes(array.reshape(-1).view(torch.uint8).tolist()) if array.numel() else b""
    return np.asarray(array).tobytes()


def check(checkpoint, tensors) -> None:
    assert list(checkpoint) == list(tensors)
    for name, tensor in tensors.items():
        info, array = checkpoint[name], checkpoint.read(name)
        assert info.shape == array.shape == tuple(tensor.shape), name
        assert info.dtype == array.dtype and info.dtype.name == str(tensor.dtype).removeprefix("torch."), name
        assert bits(array) == bits(tensor), name
        assert not array.flags.writeable or array.size == 0, name


def fails(path: Path, code: str, *words: str, key: str | None = None) -> PortError:
    with pytest.raises(PortError) as caught:
        open_checkpoint(path, key=key)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)
    return caught.value


# --- formats ----------------------------------------------------------------------------------------------------------


def test_torch_zip(tensors, tmp_path):
    torch.save(tensors, tmp_path / "model.pt")
    check(open_checkpoint(tmp_path / "model.pt"), tensors)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickle_protocols(tensors, tmp_path, protocol):
    torch.save(tensors, tmp_path / "model.pt", pickle_protocol=protocol)
    check(open_checkpoint(tmp_path / "model.pt"), tensors)


def test_torch_before_1_6(tensors, tmp_path):
    del tensors["types.uint16"]  # the old format has no such storage
    torch.save(tensors, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    checkpoint = open_checkpoint(tmp_path / "model.pt")
    check(checkpoint, tensors)
    assert checkpoint.format == "torch.save (before torch 1.6)"


def test_safetensors(tensors, tmp_path):
    plain = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    del plain["types.complex128"]  # safetensors has no such type
    save_file(plain, tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path / "model.safetensors")
    check(checkpoint, {name: plain[name] for name in checkpoint})
    assert set(checkpoint) == set(plain)


def test_the_name_does_not_matter(tensors, tmp_path):
    torch.save(tensors, tmp_path / "model.safetensors")
    check(open_checkpoint(tmp_path / "model.safetensors"), tensors)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_sharded(tmp_path, kind):
    one, other = {"a": torch.arange(3.0)}, {"b": torch.arange(4)}
    stem = "model" if kind == "safetensors" else "pytorch_model"
    for i, shard in enumerate((one, other)):
        path = tmp_path / f"{stem}-{i}.{kind}"
        save_file(shard, path) if kind == "safetensors" else torch.save(shard, path)
    index = tmp_path / f"{stem}.{kind}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": f"{stem}-0.{kind}", "b": f"{stem}-1.{kind}"}}))
    check(open_checkpoint(index), one | other)

    index.write_text(json.dumps({"weight_map": {"a": f"{stem}-0.{kind}", "b": f"{stem}-0.{kind}"}}))
    fails(index, "WPT003", "b is in")
    index.write_text(json.dumps({"weight_map": {}}))
    assert len(open_checkpoint(index)) == 0
    index.write_text(json.dumps({"weight_map": {"a": f"{stem}-2.{kind}"}}))
    fails(index, "WPT001", f"{stem}-2.{kind}")


def test_a_shard_holds_more_than_the_index_says(tmp_path):
    save_file({"a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "s.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "s.safetensors"}}))
    fails(index, "WPT003", "holds b")


def test_an_index_opens_nothing_outside_its_folder(tmp_path):
    (tmp_path / "inner").mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "s.safetensors")
    index = tmp_path / "inner" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../s.safetensors"}}))
    fails(index, "WPT003", "s.safetensors", "does not lie beside it")


def test_another_byte_order(tmp_path):
    """A file from a big-endian machine: the record "byteorder" says so, and the blocks are swapped."""
    values = {"f": torch.arange(6.0).reshape(2, 3).t(), "c": torch.tensor([1 + 2j, 3 - 4j]), "i": torch.tensor([1, 2])}
    torch.save(values, tmp_path / "little.pt")
    with zipfile.ZipFile(tmp_path / "little.pt") as little, zipfile.ZipFile(tmp_path / "big.pt", "w") as big:
        sizes = {"0": 4, "1": 4, "2": 8}
        for record in little.infolist():
            data = little.read(record)
            key = record.filename.rpartition("/")[2]
            if "/data/" in record.filename:
                data = np.frombuffer(data, f"u{sizes[key]}").byteswap().tobytes()
            big.writestr(record.filename, b"big" if key == "byteorder" else data)
    big_file = open_checkpoint(tmp_path / "big.pt")
    for name, tensor in values.items():
        np.testing.assert_array_equal(big_file.read(name), tensor.numpy())


def test_reading_leaves_the_file_readable_after_release(tensors, tmp_path):
    torch.save(tensors, tmp_path / "model.pt")
    checkpoint = open_checkpoint(tmp_path / "model.pt")
    for name in checkpoint:
        checkpoint.release(name)
    check(checkpoint, tensors)


# --- what is around the state dict ------------------------------------------------------------------------------------


@pytest.fixture
def net() -> torch.nn.Module:
    return torch.nn.Sequential(OrderedDict(fc=torch.nn.Linear(2, 3), bn=torch.nn.BatchNorm1d(3)))


def training(net: torch.nn.Module) -> dict:
    """What a training script saves: optimizer, scheduler, random states and best scores beside the model."""
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": schedule.state_dict(),
        "epoch": 3,
        "best": torch.tensor(0.5),
        "callbacks": {"ModelCheckpoint{'monitor': 'loss'}": {"best_model_score": torch.tensor(0.5)}},
        "rng": torch.get_rng_state(),
        "states": {"python": (1, 2), "torch": torch.get_rng_state()},
    }


def test_the_only_state_dict_is_found(net, tmp_path):
    torch.save(training(net), tmp_path / "last.ckpt")
    checkpoint = open_checkpoint(tmp_path / "last.ckpt")
    check(checkpoint, net.state_dict())
    assert checkpoint.key == "model" and checkpoint.notes() == ("taken from 'model' of the file",)


def test_several_state_dicts_need_a_key(net, tmp_path):
    path = tmp_path / "last.pt"
    torch.save(training(net) | {"ema": {"shadow": net.state_dict(), "decay": 0.9}}, path)
    error = fails(path, "WPT004", "--key model: 7 tensors", "--key ema.shadow: 7 tensors, first fc.weight")
    assert error.exit_code == 2
    check(open_checkpoint(path, key="ema.shadow"), net.state_dict())
    fails(path, "WPT004", "no state dict under 'modle'", key="modle")


def test_weights_beside_a_nested_state_dict_are_not_passed_over(tmp_path):
    torch.save({"w": torch.ones(2), "ema": {"w": torch.zeros(2)}}, tmp_path / "m.pt")
    fails(tmp_path / "m.pt", "WPT004", "--key ema", "--key '': 1 tensor,")


def test_a_list_of_state_dicts(net, tmp_path):
    torch.save([net.state_dict(), net.state_dict()], tmp_path / "m.pt")
    check(open_checkpoint(tmp_path / "m.pt", key="1"), net.state_dict())


def test_whole_integers_are_a_state_dict_too(tmp_path):
    torch.save({"table": torch.arange(3)}, tmp_path / "m.pt")
    check(open_checkpoint(tmp_path / "m.pt"), {"table": torch.arange(3)})


def test_a_module_that_was_pickled_whole(net, tmp_path):
    net.bn.register_buffer("scratch", torch.ones(1), persistent=False)
    for legacy in (True, False):
        torch.save({"model": net, "epoch": 1}, tmp_path / "m.pt", _use_new_zipfile_serialization=legacy)
        check(open_checkpoint(tmp_path / "m.pt"), net.state_dict())


def test_other_containers(tmp_path):
    state = defaultdict(list, {"w": torch.ones(2)})
    torch.save({"state": state}, tmp_path / "m.pt")
    check(open_checkpoint(tmp_path / "m.pt"), {"w": torch.ones(2)})


def test_no_state_dict(tmp_path):
    for saved, said in (
        ([1, torch.ones(2)], "a list of 2: 0 is a int, 1 is a tensor"),
        ({3: torch.ones(2)}, "a dict of 1: 3 is a tensor"),
        (torch.ones(1), "a tensor"),
        (torch.optim.SGD([torch.ones(1)]).state_dict(), "the state of an optimizer"),
    ):
        torch.save(saved, tmp_path / "m.pt")
        fails(tmp_path / "m.pt", "WPT002", "no state dict", said)


@pytest.mark.parametrize(
    ("keys", "found", "stripped"),
    [
        (["module.fc.weight", "module.fc.bias"], ["fc.weight", "fc.bias"], ("module.",)),
        (["_orig_mod.fc.weight"], ["fc.weight"], ("_orig_mod.",)),
        (["_orig_mod.module.fc.weight"], ["fc.weight"], ("_orig_mod.", "module.")),
        (["module._orig_mod.fc.weight"], ["fc.weight"], ("_orig_mod.", "module.")),
        (["encoder._orig_mod.fc.weight", "head.bias"], ["encoder.fc.weight", "head.bias"], ("_orig_mod.",)),
        (["module.fc.weight", "head.bias"], ["module.fc.weight", "head.bias"], ()),
        (["my_orig_mod.weight"], ["my_orig_mod.weight"], ()),
        (["_orig_mod.a", "a"], ["_orig_mod.a", "a"], ()),
    ],
)
def test_prefixes(tmp_path, keys, found, stripped):
    torch.save({key: torch.ones(1) for key in keys}, tmp_path / "m.pt")
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    assert list(checkpoint) == found and checkpoint.stripped == stripped


def test_a_module_called_module_keeps_its_name(tmp_path):
    torch.save({"module.fc.weight": torch.ones(1)}, tmp_path / "m.pt")
    assert list(open_checkpoint(tmp_path / "m.pt", expected=["module.fc.weight"])) == ["module.fc.weight"]


# --- bad files --------------------------------------------------------------------------------------------------------


def test_missing_and_directory(tmp_path):
    fails(tmp_path / "none.pt", "WPT001", "No such file")
    fails(tmp_path, "WPT001", "is a directory", "Give a file")
    (tmp_path / "one.pt").touch()
    (tmp_path / "two.pt").touch()
    fails(tmp_path, "WPT001", "It holds one.pt, two.pt")


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [
        (b"", "WPT003", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "WPT002", "git lfs pull"),
        (b"<!DOCTYPE html>", "WPT002", "web page"),
        (b"\x89HDF\r\n", "WPT002", "HDF5"),
        (b"hello world, I am text", "WPT002", "neither"),
        (b"\x80\x04K\x01.", "WPT002", "not one that torch wrote"),
        (b"\x80", "WPT002", "not one that torch wrote"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{", "WPT003", "within its header"),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00{]", "WPT003", "damaged"),
        (b"{}", "WPT002", "neither"),
    ],
)
def test_other_content(tmp_path, content, code, word):
    (tmp_path / "m.bin").write_bytes(content)
    fails(tmp_path / "m.bin", code, word)


def test_an_index_without_a_map(tmp_path):
    (tmp_path / "m.index.json").write_text("{}")
    fails(tmp_path / "m.index.json", "WPT002", "weight_map")


@pytest.mark.parametrize("legacy", [False, True])
def test_cut_off_anywhere(tensors, tmp_path, legacy):
    del tensors["types.uint16"]
    whole, cut = tmp_path / "whole.pt", tmp_path / "cut.pt"
    torch.save(tensors, whole, _use_new_zipfile_serialization=not legacy)
    data = whole.read_bytes()
    for length in sorted({1, 3, 40, len(data) // 3, len(data) // 2, len(data) - 200, len(data) - 1}):
        cut.write_bytes(data[:length])
        with pytest.raises(PortError) as caught:
            open_checkpoint(cut)
        assert caught.value.code in ("WPT002", "WPT003"), length


def test_safetensors_cut_off_or_padded(tmp_path):
    save_file({"w": torch.ones(4)}, tmp_path / "m.safetensors")
    data = (tmp_path / "m.safetensors").read_bytes()
    for changed in (data[:-1], data + b"\0"):
        (tmp_path / "m.safetensors").write_bytes(changed)
        fails(tmp_path / "m.safetensors", "WPT003", "bytes, its header speaks of")


@pytest.mark.parametrize(
    ("entry", "code", "word"),
    [
        ({"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}, "WPT003", "takes 16 bytes, not 8"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, "WPT003", "shape"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, "WPT003", "does not start where"),
        ({"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}, "WPT005", "'F4'"),
        ({"dtype": "F32", "shape": [2]}, "WPT003", "damaged"),
        ([], "WPT003", "damaged"),
    ],
)
def test_safetensors_that_contradict_themselves(tmp_path, entry, code, word):
    text = json.dumps({"w": entry}).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    fails(tmp_path / "m.safetensors", code, word)


def test_zips_that_are_no_checkpoints(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    fails(tmp_path / "b.zip", "WPT002", "a zip file")
    with zipfile.ZipFile(tmp_path / "c.pt", "w") as archive:
        archive.writestr("c/data.pkl", "x")
        archive.writestr("c/constants.pkl", "x")
    fails(tmp_path / "c.pt", "WPT002", "TorchScript")


def test_a_compressed_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}." * 100)
    fails(tmp_path / "m.pt", "WPT003", "compressed")


def test_a_block_that_is_missing(tmp_path):
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(2)}, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(tmp_path / "m.pt", "w") as new:
        for record in old.infolist():
            if not record.filename.endswith("data/0"):
                new.writestr(record.filename, old.read(record))
    fails(tmp_path / "m.pt", "WPT003", "w refers to the block '0'")

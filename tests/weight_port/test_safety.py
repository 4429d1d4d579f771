"""A hostile checkpoint runs nothing, imports nothing, claims no more than it has, and cannot change the reader."""

import argparse
import io
import os
import pickle
import struct
import sys
import warnings
import zipfile

import numpy as np
import pytest
import torch

from weight_port import PortError, inspect, open_checkpoint, pickles
from weight_port.pickles import Opaque


class Hostile:
    """Pickles to a call of any function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "executed"


def payloads(marker):
    yield Hostile(os.system, f"touch {marker}")
    yield Hostile(exec, f"open({str(marker)!r}, 'w').close()")
    yield Hostile(os.mkdir, str(marker))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_nothing_is_executed(tmp_path, marker, legacy, number):
    payload = list(payloads(marker))[number]
    torch.save({"w": torch.ones(2), "x": payload}, tmp_path / "m.pt", _use_new_zipfile_serialization=not legacy)
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    np.testing.assert_array_equal(checkpoint.read("w"), np.ones(2, np.float32))
    assert list(checkpoint) == ["w"] and not marker.exists()
    # the payload is a real one: the same bytes do run where a reader trusts them
    pickle.loads(pickle.dumps(payload))
    assert marker.exists()


def test_a_raw_pickle_is_not_executed(tmp_path, marker):
    (tmp_path / "m.pt").write_bytes(pickle.dumps(next(payloads(marker))))
    with pytest.raises(PortError) as caught:
        open_checkpoint(tmp_path / "m.pt")
    assert caught.value.code == "WPT002" and not marker.exists()


def test_nothing_is_imported():
    assert "antigravity" not in sys.modules
    stub = pickles.loads(b"cantigravity\nfly\n.")
    assert issubclass(stub, Opaque) and stub.origin == "antigravity.fly"
    assert "antigravity" not in sys.modules


def test_harmless_strangers_become_inert(tmp_path):
    saved = {
        "model": {"w": torch.ones(2)},
        "args": argparse.Namespace(lr=0.1, layers=[1, 2]),
        "score": np.float64(0.5),
        "array": np.arange(3),
        "device": torch.device("cpu"),
        "type": torch.float32,
        "none": None,
    }
    torch.save(saved, tmp_path / "m.pt")
    assert list(open_checkpoint(tmp_path / "m.pt")) == ["w"]


def test_stubs_take_every_instruction():
    """Subclasses of dict, list and set pickle to items, appends and adds on an object of an unknown class."""

    class Settings(dict): ...

    class Stack(list): ...

    for value in (Settings(a=1), Stack([1, 2])):
        value.extra = {"b": 2}
        type(value).__module__, type(value).__qualname__ = __name__, type(value).__name__
        globals()[type(value).__name__] = type(value)
        for protocol in (2, 4):
            stub = pickles.loads(pickle.dumps(value, protocol))
            assert isinstance(stub, Opaque) and stub.state == {"extra": {"b": 2}}
    assert pickles.loads(pickle.dumps(Settings(a=1))).items == {"a": 1}


@pytest.mark.parametrize("name", ["_rebuild_tensor_v2", "_rebuild_parameter"])
def test_the_reader_cannot_be_changed(name):
    """BUILD sets attributes on whatever is on the stack, here on the reader's own function."""
    attack = b"ctorch._utils\n" + name.encode() + b"\n(N}X\x08\x00\x00\x00__name__X\x01\x00\x00\x00xstb."
    with pytest.raises(pickle.UnpicklingError):
        pickles.loads(attack)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x80",
        b"\x80\x02",
        b"garbage",
        b"(" * 100_000 + b"t" * 100_000 + b".",
        b"\x80\x04\x8e" + b"\xff" * 8,
        b"Q.",
    ],
    ids=["empty", "cut", "header", "text", "deep", "huge", "persistent"],
)
def test_broken_pickles_give_one_kind_of_error(broken):
    try:
        pickles.loads(broken)
    except pickle.UnpicklingError as error:
        assert str(error)
    else:
        assert broken.startswith(b"((")  # depth alone is no harm


def rewritten(tmp_path, change) -> str:
    """A torch file whose pickle went through ``change``."""
    buffer = io.BytesIO()
    torch.save({"w": torch.arange(4.0).reshape(2, 2)}, buffer)
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for record in old.infolist():
            data = old.read(record)
            new.writestr(record.filename, change(data) if record.filename.endswith("data.pkl") else data)
    return path


SHAPE, STRIDES = b"K\x02K\x02\x86", b"K\x02K\x01\x86"  # (2, 2) and (2, 1) in a pickle


def test_a_few_bytes_may_not_stand_for_gigabytes(tmp_path):
    torch.save({"w": torch.ones(1).expand(2**30)}, tmp_path / "m.pt")
    with pytest.raises(PortError) as caught:
        open_checkpoint(tmp_path / "m.pt")
    assert caught.value.code == "WPT006" and "4,294,967,296 bytes" in caught.value.message
    # nothing is taken for listing it, and who knows what it is may have it
    assert inspect(tmp_path / "m.pt").parts[0].tensors[0].note == "repeats its elements"
    assert open_checkpoint(tmp_path / "m.pt", allow_expanded=True).read("w").strides == (0,)


def test_expanded_tensors_share_one_budget(tmp_path):
    torch.save({str(i): torch.ones(1).expand(2**22) for i in range(5)}, tmp_path / "m.pt")  # 16 MiB each
    with pytest.raises(PortError) as caught:
        open_checkpoint(tmp_path / "m.pt")
    assert caught.value.code == "WPT006"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SHAPE, b"K\x02K\x03\x86"),
        (STRIDES, b"K\x02K\x02\x86"),
        (SHAPE, b"J\xff\xff\xff\xffK\x02\x86"),
        (STRIDES, b"J\xff\xff\xff\xffK\x01\x86"),
        (SHAPE, b"K\x04\x85"),
        (SHAPE, b"\x8a\x08" + struct.pack("<q", 2**62) + b"K\x02\x86"),
        (SHAPE, b"\x8a\x08" + struct.pack("<q", 2**62) + b"K\x00\x86"),
    ],
    ids=[
        "shape beyond",
        "strides beyond",
        "negative shape",
        "negative stride",
        "ranks differ",
        "overflow",
        "void overflow",
    ],
)
def test_tensors_that_reach_outside_their_block(tmp_path, old, new):
    assert list(open_checkpoint(rewritten(tmp_path, lambda data: data))) == ["w"]

    def change(data):
        assert data.count(old) == 1
        return data.replace(old, new)

    with pytest.raises(PortError) as caught:
        open_checkpoint(rewritten(tmp_path, change))
    assert caught.value.code == "WPT003"


def test_two_records_of_one_name(tmp_path):
    path = rewritten(tmp_path, lambda data: data)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
    with pytest.raises(PortError) as caught:
        open_checkpoint(path)
    assert caught.value.code == "WPT003" and "two records of one name" in caught.value.message


def test_tensors_without_a_plain_array_are_opaque(tmp_path):
    strange = {
        "sparse": torch.eye(2).to_sparse(),
        "conjugated": torch.tensor([1 + 2j]).conj(),
        "meta": torch.empty(2, device="meta"),
        "w": torch.ones(1),
    }
    torch.save(strange, tmp_path / "m.pt")
    checkpoint = open_checkpoint(tmp_path / "m.pt")
    assert list(checkpoint) == ["w"] and set(checkpoint.opaque) == {"sparse", "conjugated", "meta"}
    assert "conj" in checkpoint.opaque["conjugated"]


@pytest.mark.parametrize("legacy", [False, True])
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path, legacy):
    """Bytes changed at random, mostly in the headers and the pickle: no other kind of error, and no crash."""
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(3, 2), "b": torch.ones(3)}, buffer, _use_new_zipfile_serialization=not legacy)
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(300):
        data = bytearray(buffer.getvalue())
        for place in rng.integers(0, len(data), rng.integers(1, 6)):
            data[place] = rng.integers(0, 256)
        (tmp_path / "m.pt").write_bytes(data)
        try:
            checkpoint = open_checkpoint(tmp_path / "m.pt")
            outcomes.add(all(checkpoint.read(key).shape == checkpoint[key].shape for key in checkpoint))
        except PortError as error:
            outcomes.add(error.code)
    assert {True, "WPT003"} <= outcomes <= {True, "WPT002", "WPT003", "WPT005"}

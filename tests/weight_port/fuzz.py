"""Mutated checkpoints of every format: each is read or refused with one of our codes, and nothing else happens.

python -m tests.weight_port.fuzz --count 10000
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import pickle
import random
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from weight_port import PortError, open_checkpoint, read_optimizer_state, store

HANGS_AFTER = 10  # seconds
INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF, *b"(.}]{[\"',:0123456789", *b"cRbq\x85\x86\x87tusaeh\x93\x81\x8c\x94")
STATE = {"w": torch.arange(6.0).reshape(3, 2), "t": torch.ones(2, 3, dtype=torch.bfloat16).t(), "n": torch.tensor(1)}


class Payload:
    """Would leave a file behind, were it ever run."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def seeds(marker: Path) -> dict[str, dict[str, bytes]]:
    """Folders of files by format; the first file of each is the one to open, "" a folder itself."""
    moments = {"state": {0: {"step": torch.tensor(2.0), "exp_avg": STATE["w"]}}, "param_groups": [{"params": [0]}]}
    wrapped = {"args": Payload(marker), "model": STATE, "optimizer": moments, "more": [{"a": (1, 2)}, {3, 4}]}
    zipped, legacy, packed, squeezed = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(wrapped, zipped)
    torch.save(wrapped, legacy, _use_new_zipfile_serialization=False)
    np.savez(packed, a=np.ones((2, 3)), b=np.asfortranarray(np.arange(6).reshape(2, 3)))
    np.savez_compressed(squeezed, a=np.zeros((200, 3)), o=np.array([{}], object))
    tensors = save({name: tensor.contiguous() for name, tensor in STATE.items()})
    places = {"weight_map": dict.fromkeys(STATE, "s.safetensors")}
    found = {
        "zip": {"m.pt": zipped.getvalue()},
        "legacy": {"m.pt": legacy.getvalue()},
        "safetensors": {"m.safetensors": tensors},
        "npz": {"m.npz": packed.getvalue()},
        "compressed npz": {"m.npz": squeezed.getvalue()},
        "index": {"m.safetensors.index.json": json.dumps(places).encode(), "s.safetensors": tensors},
        "dcp": {"": b"", **distributed()},
        "msgpack": {"m.msgpack": serialised()},
    }
    return found


def serialised() -> bytes:
    """What flax writes of a training loop's state, one array in pieces."""
    from flax.serialization import msgpack_serialize, to_bytes

    whole = {"params": {"w": np.ones((2, 3), np.float32), "b": np.zeros(2)}, "epoch": 3, "best": 0.5}
    pieces = {"0": np.zeros(3), "1": np.zeros(1)}
    chunked = {"__msgpack_chunked_array__": True, "shape": {"0": 2, "1": 2}, "chunks": pieces}
    return b"\x82\xa1a" + to_bytes(whole) + b"\xa1b" + msgpack_serialize(chunked)


def distributed() -> dict[str, bytes]:
    """A distributed checkpoint."""
    import torch.distributed.checkpoint as dcp

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": STATE, "step": 3}, checkpoint_id=folder, no_dist=True)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def mutated(data: bytes, draw: random.Random) -> bytes:
    """The data after a few changes: bytes, cuts, repeats, numbers."""
    made = bytearray(data)
    # most of what can be wrong is in the pickle or the headers, wherever they are
    spots = [i for mark in (b"\x80\x02", b"PK", b"{", b"NUMPY") if (i := data.find(mark)) >= 0] or [0]
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        if not made:
            break
        near = draw.random() < 0.5
        place = min(len(made) - 1, draw.choice(spots) + draw.randrange(300)) if near else draw.randrange(len(made))
        kind = draw.randrange(8)
        if kind < 3:
            made[place] = draw.choice(INTERESTING)
        elif kind == 3:
            made[place] ^= 1 << draw.randrange(8)
        elif kind == 4:
            del made[place : place + draw.randrange(1, 64)]
        elif kind == 5:
            piece = made[place : place + draw.randrange(1, 64)]
            made[place:place] = piece * draw.choice((1, 2, 100))
        elif kind == 6:
            made[place : place + 8] = draw.choice((2**63 - 1, 2**64 - 1, 2**32, 0)).to_bytes(8, "little")
        else:
            other = draw.randrange(len(made))
            made[place : place + 16] = made[other : other + 16]
    return bytes(made)


def outcome(path: Path) -> str:
    """Open a checkpoint and read all of it: "read", or the code of the error."""
    try:
        checkpoint = open_checkpoint(path)
        for key in checkpoint:
            array = checkpoint.read(key)
            assert array.shape == checkpoint[key].shape and array.dtype == checkpoint[key].dtype
            array.tobytes()
        if checkpoint.format.startswith("torch.save"):
            read_optimizer_state(path)
        return "read"
    except PortError as error:
        assert str(error) and len(str(error)) < 5000
        return error.code


def flax_outcome(path: Path) -> str:
    """The same of a Flax file, for the way back."""
    try:
        infos, read = store.read(path)
        return "read" if all(read(name).shape == infos[name].shape for name in infos) else "differs"
    except PortError as error:
        return error.code


def trials(folder: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Format and outcome of each mutated input."""
    marker = folder / "executed"
    made, draw = seeds(marker), random.Random(seed)
    for number in range(count):
        kind = list(made)[number % len(made)]
        place = folder / "trial"
        place.mkdir(exist_ok=True)
        victim = draw.choice([name for name in made[kind] if name])
        for name, data in made[kind].items():
            if name:
                (place / name).write_bytes(mutated(data, draw) if name == victim else data)
        before = set(place.iterdir())
        opened = place / next(iter(made[kind]))
        signal.alarm(HANGS_AFTER)
        try:
            found = flax_outcome(opened) if kind == "msgpack" else outcome(opened)
        finally:
            signal.alarm(0)
        assert not marker.exists(), f"{kind}: code was run"
        assert set(place.iterdir()) == before, f"{kind}: something was written"
        for path in before:
            path.unlink()
        yield kind, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (4 * 10**9, 4 * 10**9))
    warnings.simplefilter("error")
    began, found = time.perf_counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for kind, what in trials(Path(folder), given.count, given.seed):
            found[kind, what] += 1
    for (kind, what), number in sorted(found.items()):
        print(f"{kind:16}{what:8}{number:7}")
    seconds = time.perf_counter() - began
    print(f"{given.count} mutated inputs in {seconds:.0f} s: no crash, no hang, no code run, nothing written")


if __name__ == "__main__":
    assert pickle.dumps(Payload(Path("x")))
    main()

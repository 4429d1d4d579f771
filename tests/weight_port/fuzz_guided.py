"""The readers under atheris, which keeps the mutated inputs that reach new code and mutates those again.

python -m tests.weight_port.fuzz_guided -runs=10000
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

atheris: Any = importlib.import_module("atheris")  # by name: it is not part of the environment

with atheris.instrument_imports(include=["weight_port"]):
    from weight_port import checkpoint, store  # noqa: F401

from tests.weight_port import fuzz  # noqa: E402  (after the readers are instrumented)

SUFFIXES = (".pt", ".safetensors.index.json", ".npz", ".msgpack", "dcp")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="migrate-fuzz-"))
    marker, corpus = folder / "executed", folder / "corpus"
    corpus.mkdir()
    for kind, files in fuzz.seeds(marker).items():
        for name, data in files.items():
            endings = {"npz": 2, "msgpack": 3, ".metadata": 4, ".json": 1}
            number = next((number for ending, number in endings.items() if name.endswith(ending)), 0)
            (corpus / f"{kind}-{name or 'none'}".replace(" ", "-")).write_bytes(bytes([number]) + data)
    place = folder / "trial"
    place.mkdir()

    def one(data: bytes) -> None:
        suffix = SUFFIXES[data[0] % len(SUFFIXES)] if data else ".pt"
        path = place / (".metadata" if suffix == "dcp" else f"m{suffix}")
        path.write_bytes(data[1:])
        if suffix == ".msgpack":
            fuzz.flax_outcome(path)
        else:
            fuzz.outcome(place if suffix == "dcp" else path)
        assert not marker.exists(), "code was run"
        assert os.listdir(place) == [path.name], "something was written"
        path.unlink()

    atheris.Setup([sys.argv[0], "-timeout=20", "-rss_limit_mb=4096", *sys.argv[1:], str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

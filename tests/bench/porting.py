"""How long a port takes beside a plain copy of the same bytes, and how much memory: both measured in the same run.

    python -m tests.bench.porting                 # 1.7 GB of float32 and of bfloat16, every format
    python -m tests.bench.porting --huge 20       # a 20 GB sharded checkpoint (sparse files) under 1 GB of memory

The checkpoints are shaped like a Llama. Each measurement is a process of its own; imports are not counted. Memory is
what belongs to the process alone (RssAnon), not pages of mapped files, which the system takes back when it needs them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

LIMIT_RATIO, LIMIT_ANONYMOUS = 2.0, 200  # times the copy; MB
REPETITIONS = 5  # of what is judged; the peer is slow and is not
PEER = "safetensors.flax"
THERE_AND_BACK = "there and back"


def shapes(width: int, inner: int, layers: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The keys of a Llama."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, width)}
    for i in range(layers):
        block = f"model.layers.{i}"
        found |= {f"{block}.self_attn.{name}_proj.weight": (width, width) for name in "qkvo"}
        found |= {f"{block}.mlp.{name}_proj.weight": (inner, width) for name in ("gate", "up")}
        found |= {f"{block}.mlp.down_proj.weight": (width, inner)}
        found |= {f"{block}.{name}.weight": (width,) for name in ("input_layernorm", "post_attention_layernorm")}
    return found | {"model.norm.weight": (width,), "lm_head.weight": (vocabulary, width)}


def manifest(keys: dict[str, tuple[int, ...]]):
    """Every matrix transposed but the embedding."""
    from migrate.layers.moves import Permute
    from migrate.manifest import Leaf, Manifest, ModelWeights

    leaves = []
    for key, shape in keys.items():
        swap = (Permute((1, 0)),) if len(shape) == 2 and "embed" not in key else ()
        leaves.append(Leaf("params/" + key.replace(".", "/"), key, swap, shape[::-1] if swap else shape))
    return Manifest("bench", "linen", (ModelWeights("Llama", tuple(leaves)),))


def write_safetensors(folder: Path, keys: dict[str, tuple[int, ...]], short: str, size: int, sparse: bool) -> None:
    """One or, where they are sparse, several files with an index; random bits, or holes."""
    names = list(keys)
    step = len(names) if not sparse else max(1, len(names) // 5)
    groups = [names[i : i + step] for i in range(0, len(names), step)]
    random, places = np.random.default_rng(0), {}
    for number, group in enumerate(groups, 1):
        name = "model.safetensors" if len(groups) == 1 else f"model-{number:05}-of-{len(groups):05}.safetensors"
        header, end = {}, 0
        for key in group:
            start, end = end, end + int(np.prod(keys[key])) * size
            header[key] = {"dtype": short, "shape": list(keys[key]), "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            if sparse:
                file.truncate(8 + len(text) + end)
            else:
                for start in range(0, end, 2**24):
                    file.write(random.bytes(min(2**24, end - start)))
        places |= dict.fromkeys(group, name)
    if len(groups) > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def write_bin(folder: Path) -> None:
    """The same weights as torch saves them."""
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")


# --- the child ---


class Anonymous(threading.Thread):
    """The highest RssAnon that was seen, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest, self.over = 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.01):
            self.look()

    def look(self) -> None:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                self.highest = max(self.highest, int(line.split()[1]) / 1000)


def peer(source: Path, target: Path) -> None:
    """The fastest of the published ways that were measured: all of it through jax, every matrix transposed."""
    import jax.numpy as jnp
    from safetensors.flax import load_file, save_file

    loaded = load_file(source)
    moved = {key: jnp.transpose(a) if a.ndim == 2 and "embed" not in key else a for key, a in loaded.items()}
    save_file(moved, target)


def child(what: str, source: Path, target: Path, weights: str, limit: int) -> None:
    """Do one thing and print how long it took."""
    import weight_port.orbax_files
    import weight_port.port  # imports are not counted
    from migrate import manifest as manifests

    if limit:  # of what the process may allocate
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if what == PEER:
        import safetensors.flax  # noqa: F401
    made = manifests.loads(weights)
    watch = Anonymous()
    watch.start()
    wall, before = time.perf_counter(), os.times()
    if what == "copy":
        buffer = bytearray(2**24)
        with open(source, "rb", buffering=0) as old, open(target, "wb", buffering=0) as new:
            while count := old.readinto(buffer):
                new.write(memoryview(buffer)[:count])
    elif what == PEER:
        peer(source, target)
    elif what == THERE_AND_BACK:
        weight_port.port.port_weights(source, made, target, verify=True)
        weight_port.port.port_weights(target, made, source.parent / "back.safetensors", reverse=True, verify=True)
    else:
        weight_port.port.port_weights(source, made, target)
    wall, after = time.perf_counter() - wall, os.times()
    watch.look()
    watch.over.set()
    cpu = after.user + after.system - before.user - before.system
    print(json.dumps({"wall": wall, "cpu": cpu, "anonymous": watch.highest}))


def measure(what: str, source: Path, target: Path, weights: str, limit: int = 0) -> dict[str, float]:
    """Run a child."""
    arguments = [sys.executable, "-m", "tests.bench.porting", "--child", what, str(source), str(target), str(limit)]
    done = subprocess.run(arguments, input=weights, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{what} {source.name}: {done.stderr[-2000:]}")
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink()
    return json.loads(done.stdout)


# --- the two measurements ---


def compare(folder: Path, scale: float) -> bool:
    """Print a table; whether every port kept within the limits."""
    from migrate import manifest as manifests

    print(f"{'type':9}{'from':22}{'to':18}{'wall s':>8}{'CPU s':>8}{'GB/s':>7}{'x copy':>8}{'x CPU':>7}{'anon MB':>9}")
    kept = True
    for name, short, size, layers in (("float32", "F32", 4, 5), ("bfloat16", "BF16", 2, 10)):
        keys = shapes(2048, 8192, max(1, round(layers * scale)), round(32_000 * min(1.0, 2 * scale)))
        weights = manifests.dumps(manifest(keys))
        write_safetensors(folder, keys, short, size, sparse=False)
        write_bin(folder)
        total = sum(int(np.prod(shape)) for shape in keys.values()) * size
        for source in (folder / "pytorch_model.bin", folder / "model.safetensors"):
            kinds = {"copy": "copy", "safetensors": "o.safetensors", "msgpack": "o.msgpack", "orbax": "o"}
            if source.suffix == ".safetensors":
                kinds[PEER] = "o.safetensors"
            rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
            for _ in range(REPETITIONS):
                for kind, target in kinds.items():
                    if kind != PEER or not rows[PEER]:
                        rows[kind].append(measure(kind, source, folder / target, weights))
            best = {kind: {key: min(r[key] for r in found) for key in ("wall", "cpu")} for kind, found in rows.items()}
            for kind, found in rows.items():
                ratio = statistics.median(r["wall"] / c["wall"] for r, c in zip(found, rows["copy"], strict=False))
                ratio = min(ratio, best[kind]["wall"] / best["copy"]["wall"])
                anonymous = max(r["anonymous"] for r in found)
                kept = kept and (kind in ("copy", PEER) or (ratio <= LIMIT_RATIO and anonymous <= LIMIT_ANONYMOUS))
                wall, cpu = best[kind]["wall"], best[kind]["cpu"]
                print(f"{name:9}{source.name:22}{kind:18}{wall:8.2f}{cpu:8.2f}{total / 1e9 / wall:7.2f}{ratio:8.2f}"
                      f"{cpu / best['copy']['cpu']:7.2f}{anonymous:9.0f}", flush=True)  # fmt: skip
    print(f"limits: {LIMIT_RATIO} x copy, {LIMIT_ANONYMOUS} MB: {'kept' if kept else 'NOT KEPT'}")
    return kept


def _bytes(width: int, inner: int, layers: int, vocabulary: int) -> int:
    return 2 * sum(int(np.prod(shape)) for shape in shapes(width, inner, layers, vocabulary).values())


def huge(folder: Path, gigabytes: float) -> bool:
    """Port a sharded checkpoint of this size (holes on the disk) with 1 GB to allocate; whether it went through."""
    from migrate import manifest as manifests

    sizes = (4096, 14_336, 64_000) if gigabytes >= 2 else (512, 1024, 1000)
    ends, block = (_bytes(*sizes[:2], layers, sizes[2]) for layers in (0, 1))
    keys = shapes(*sizes[:2], math.ceil((gigabytes * 1e9 - ends) / (block - ends)), sizes[2])
    write_safetensors(folder, keys, "BF16", 2, sparse=True)
    total = sum(int(np.prod(shape)) for shape in keys.values()) * 2
    weights = manifests.dumps(manifest(keys))
    found = measure("port", folder / "model.safetensors.index.json", folder / "o.safetensors", weights, 10**9)
    print(f"{total / 1e9:.1f} GB in 1 GB: {found['wall']:.1f} s, {found['cpu']:.1f} s CPU, "
          f"{found['anonymous']:.0f} MB anonymous at most")  # fmt: skip
    return found["anonymous"] <= LIMIT_ANONYMOUS


def main() -> None:
    if "--child" in sys.argv:
        what, source, target, limit = sys.argv[sys.argv.index("--child") + 1 :]
        child(what, Path(source), Path(target), sys.stdin.read(), int(limit))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of the checkpoints' size")
    parser.add_argument("--huge", type=float, metavar="GB", help="port a sparse checkpoint of this size instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="migrate-bench-") as name:
        kept = huge(Path(name), given.huge) if given.huge else compare(Path(name), given.scale)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

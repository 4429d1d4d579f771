"""The options of `migrate port-weights`: verifying, drafting, interruption, full disks, sizes."""

import hashlib
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from migrate import manifest as manifests
from migrate.cli import app
from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights, Tie
from weight_port import PortError, open_checkpoint, port_weights
from weight_port.cli import _bytes
from weight_port.outputs import Outputs
from weight_port.store import Options, write


@pytest.fixture
def files(tmp_path):
    """A checkpoint with a tie, its manifest."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(300, 200)).astype(np.float32)
    state = {"fc.weight": weight, "fc.bias": np.arange(300, dtype=np.float32), "head.weight": weight}
    write(tmp_path / "m.safetensors", Outputs.of(state), Options({}), reverse=True)
    leaves = (
        Leaf("params/fc/kernel", "fc.weight", (Permute((1, 0)),), (200, 300)),
        Leaf("params/fc/bias", "fc.bias", (), (300,)),
    )
    model = ModelWeights("Net", leaves, ties=(Tie("head.weight", "fc.weight"),))
    manifests.write(Manifest("m.py", "linen", (model,)), tmp_path / "weights.json")
    return tmp_path


def run(files, *options, source="m.safetensors"):
    arguments = ["port-weights", str(files / source), "--manifest", str(files / "weights.json"), *map(str, options)]
    return CliRunner().invoke(app, arguments)


# --- verifying --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["o.safetensors", "o.msgpack", "o.npz", "o"])
def test_the_hash_is_that_of_the_content(files, name):
    found = port_weights(files / "m.safetensors", files / "weights.json", files / name, verify=True).verified
    assert found is not None and [leaf.name for leaf in found.leaves] == ["params/fc/bias", "params/fc/kernel"]
    checkpoint = open_checkpoint(files / "m.safetensors")
    bias, kernel = checkpoint.read("fc.bias").tobytes(), checkpoint.read("fc.weight").T.tobytes()
    lines = [
        f"params/fc/bias float32 [300] {hashlib.sha256(bias).hexdigest()}\n",
        f"params/fc/kernel float32 [200, 300] {hashlib.sha256(kernel).hexdigest()}\n",
    ]
    assert found.content == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_verify_says_so(files):
    done = run(files, "-o", files / "o.safetensors", "--verify")
    assert done.exit_code == 0 and "verified: 2 leaves equal bit for bit" in done.output and "sha256" in done.output
    done = run(files, "-o", files / "b.safetensors", "--reverse", "--verify", source="o.safetensors")
    assert done.exit_code == 0 and "verified: 3 leaves" in done.output  # the tied one too
    done = run(files, "-o", files / "half.safetensors", "--verify", "--dtype", "bfloat16")
    assert done.exit_code == 0 and "verified" in done.output


def test_an_output_that_is_there_is_verified_without_writing(files):
    run(files, "-o", files / "o.safetensors")
    data = bytearray((files / "o.safetensors").read_bytes())
    assert run(files, "-o", files / "o.safetensors", "--verify", "--dry-run").exit_code == 0
    data[-1] ^= 1
    (files / "o.safetensors").write_bytes(data)
    done = run(files, "-o", files / "o.safetensors", "--verify", "--dry-run")
    assert done.exit_code == 1 and "WPT110" in done.output and "its values differ" in done.output
    assert (files / "o.safetensors").read_bytes() == data
    done = run(files, "-o", files / "o.safetensors", "--verify", "--dry-run", "--dtype", "float16")
    assert "it is float32 (300,), not float16 (300,)" in done.output
    write(files / "less.msgpack", Outputs.of({"params/fc/bias": np.zeros(3)}), Options({}))
    done = run(files, "-o", files / "less.msgpack", "--verify", "--dry-run")
    assert "params/fc/kernel: it is missing" in done.output


def test_nothing_to_verify(files):
    done = run(files, "--verify", "--dry-run")
    assert done.exit_code == 2 and "WPT009" in done.output


# --- drafting ---------------------------------------------------------------------------------------------------------


def test_a_draft_is_refused_until_it_is_finished(tmp_path):
    state = {f"h.{i}.fc.weight": np.full((2, 3), i, np.float32) for i in range(2)}
    state |= {f"h.{i}.ln.weight": np.ones(3, np.float32) for i in range(2)}
    state |= {"bn.weight": np.ones(3), "bn.running_mean": np.zeros(3), "bn.num_batches_tracked": np.array(1)}
    state |= {"net.0.weight": np.ones((2, 2, 3, 3)), "net.2.weight": np.ones((4, 2, 3, 3)), "pos": np.ones((1, 4, 3))}
    write(tmp_path / "m.safetensors", Outputs.of(state), Options({}), reverse=True)
    target = tmp_path / "weights.json"
    done = CliRunner().invoke(app, ["port-weights", str(tmp_path / "m.safetensors"), "--init-map", str(target)])
    assert done.exit_code == 1 and "3 of them undecided" in done.output
    text = target.read_text()
    leaves = {leaf["torch"]: leaf for leaf in json.loads(text)["models"][0]["leaves"]}
    assert leaves["h.{0}.fc.weight"]["flax"] == "params/h_{0}/fc/kernel"
    assert leaves["h.{0}.ln.weight"]["flax"] == "params/h_{0}/ln/scale"
    assert leaves["bn.running_mean"]["flax"] == "batch_stats/bn/mean"
    assert leaves["pos"]["moves"] == [] and leaves["pos"]["shape"] == [1, 4, 3]
    assert '[["permute", 2, 3, 1, 0]] for nn.Conv2d' in leaves["net.0.weight"]["moves"][0]
    with pytest.raises(PortError, match="a draft that is to be finished") as caught:
        port_weights(tmp_path / "m.safetensors", target, tmp_path / "o.safetensors")
    assert caught.value.code == "WPT007"
    for leaf in leaves.values():
        for move in leaf["moves"]:
            rank = 2 if "nn.Linear" in move else 4
            chosen = '"permute", 1, 0' if rank == 2 else '"permute", 2, 3, 1, 0'
            text = text.replace(json.dumps([move], ensure_ascii=False), f"[[{chosen}]]")
    target.write_text(text)
    port_weights(tmp_path / "m.safetensors", target, tmp_path / "o.safetensors", verify=True)
    found = open_checkpoint(tmp_path / "o.safetensors")
    assert np.array_equal(found.read("params/h_1/fc/kernel"), state["h.1.fc.weight"].T)
    done = CliRunner().invoke(app, ["port-weights", str(tmp_path / "m.safetensors"), "--init-map", str(target)])
    assert done.exit_code == 2 and "exists already" in done.output


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nbytes"), [("5GB", 5 * 10**9), ("1.5 MiB", 1572864), ("1000", 1000), ("3kb", 3000), (None, None)]
)
def test_sizes(text, nbytes):
    assert _bytes(text) == nbytes


@pytest.mark.parametrize("options", [["--shard-size", "big"], ["--shard-size", "0GB"], ["--dtype-rule", "float32"]])
def test_options_that_cannot_be_read(files, options):
    done = run(files, "-o", files / "o", *options)
    assert done.exit_code == 2 and "WPT009" in done.output and not (files / "o").exists()


def test_rules_shards_and_allowances(files):
    done = run(
        files, "-o", files / "o", "--shard-size", "100kB", "--dtype", "bfloat16", "--dtype-rule", "*/bias=keep",
        "--strict",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = open_checkpoint(files / "o")
    assert found["params/fc/bias"].dtype.name == "float32" and found["params/fc/kernel"].dtype.name == "bfloat16"
    assert len(list((files / "o").glob("*.safetensors"))) == 2
    write(files / "x.safetensors", Outputs.of({"fc.bias": np.ones(300), "extra": np.ones(1)}), Options({}))
    assert run(files, "--dry-run", source="x.safetensors").exit_code == 1
    allowed = ("--allow-unused", "ext*", "--allow-missing", "*/kernel")
    done = run(files, "--dry-run", *allowed, source="x.safetensors")
    assert done.exit_code == 0 and "not needed: extra (allowed by --allow-unused)" in done.output


def test_no_manifest(files):
    done = CliRunner().invoke(app, ["port-weights", str(files / "m.safetensors"), "-o", str(files / "o")])
    assert done.exit_code == 2 and "WPT008" in done.output and "--init-map" in done.output


# --- what comes in between --------------------------------------------------------------------------------------------


@pytest.fixture
def large(files):
    """A checkpoint that takes a while: 400 MB of holes."""
    count = 10**8
    header = {"w": {"dtype": "F32", "shape": [10**4, 10**4], "data_offsets": [0, 4 * count]}}
    text = json.dumps(header).encode()
    with open(files / "large.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 4 * count)
    model = ModelWeights("Net", (Leaf("params/w", "w", (Permute((1, 0)),)),))
    manifests.write(Manifest("m.py", "linen", (model,)), files / "weights.json")
    return files


def command(files, output, before=""):
    script = f"{before or None}; from migrate.cli import app; app()"
    return [
        *(sys.executable, "-c", script, "port-weights", files / "large.safetensors"),
        *("--manifest", files / "weights.json", "-o", files / output),
    ]


# A process that gets a signal from itself as soon as it makes a file or a folder beside its checkpoint.
INTERRUPTED = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def when_it_writes(event, args):
    made = event == "os.mkdir" or (event == "open" and (args[2] or 0) & os.O_CREAT)
    if made and str(args[0]).startswith({folder!r}):
        os.kill(os.getpid(), {number})

sys.addaudithook(when_it_writes)
"""


@pytest.mark.parametrize(("number", "output"), [(signal.SIGINT, "o.safetensors"), (signal.SIGTERM, "o")])
def test_an_interrupted_run_leaves_nothing(large, number, output):
    before = set(os.listdir(large))
    hook = INTERRUPTED.format(folder=str(large), number=int(number))
    done = subprocess.run(command(large, output, f"exec({hook!r})"), capture_output=True, text=True)
    assert done.returncode == 130 and "interrupted; nothing was written" in done.stderr
    assert set(os.listdir(large)) == before


@pytest.mark.parametrize("output", ["o.msgpack", "o"])
def test_a_full_disk(large, output):
    """The system refuses to let a file grow beyond 50 MB."""
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (50 * 10**6, 50 * 10**6))"
    before = set(os.listdir(large))
    done = subprocess.run(command(large, output, limit), capture_output=True, text=True)
    assert done.returncode == 2 and "WPT010" in done.stderr and "400,000,000 bytes are needed" in done.stderr
    assert "Traceback" not in done.stderr and set(os.listdir(large)) == before

"""`migrate inspect`: what a checkpoint holds, from its headers alone."""

import json

import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
from flax.serialization import to_bytes
from safetensors.torch import save_file
from typer.testing import CliRunner

from migrate.cli import app
from weight_port import PortError, regions
from weight_port.inspection import inspect
from weight_port.outputs import Outputs
from weight_port.store import Options, read, write


@pytest.fixture
def nested(tmp_path):
    weight = torch.arange(12.0).reshape(3, 4)
    saved = {
        "model": {
            "fc.weight": weight, "tied.weight": weight, "row.weight": weight[1], "t.weight": torch.ones(2, 3).t(),
            "one": torch.ones(1).expand(5), "scalar": torch.tensor(3), "empty": torch.empty(0, 4),
            "half": torch.ones(2, dtype=torch.bfloat16), "args": object,
        },
        "ema": {"fc.weight": torch.zeros(3, 4)},
        "optimizer": {"state": {0: {"step": torch.tensor(1.0), "exp_avg": weight.clone()}},
                      "param_groups": [{"params": [0], "lr": 0.1, "betas": (0.9, 0.99)}]},
    }  # fmt: skip
    torch.save(saved, tmp_path / "m.pt")
    return tmp_path / "m.pt"


def test_every_state_dict_is_listed(nested):
    model, ema = inspect(nested).parts
    assert (model.key, ema.key) == ("model", "ema")
    entries = {entry.key: entry for entry in model.tensors}
    assert entries["fc.weight"].shape == (3, 4) and entries["fc.weight"].nbytes == 48
    assert entries["tied.weight"].same_as == entries["row.weight"].same_as == "fc.weight"
    assert not entries["fc.weight"].same_as and not entries["half"].same_as
    assert entries["t.weight"].note == "strided" and entries["one"].note == "repeats its elements"
    assert entries["half"].dtype == "bfloat16" and entries["scalar"].shape == () and entries["empty"].nbytes == 0
    assert list(model.other) == ["args"]
    assert model.nbytes == 48 + 24 + 20 + 8 + 0 + 4  # what is shared counts once


def test_an_optimizers_state_is_listed(nested, tmp_path):
    (state,) = inspect(nested).optimizers
    assert [(entry.key, entry.shape) for entry in state.tensors] == [("0.step", ()), ("0.exp_avg", (3, 4))]
    assert state.notes == ("group 0: 1 parameters, lr=0.1, betas=(0.9, 0.99)",)
    torch.save(torch.load(nested, weights_only=False)["optimizer"], tmp_path / "optimizer.bin")
    alone = inspect(tmp_path / "optimizer.bin")
    assert alone.parts == () and alone.optimizers[0].tensors == state.tensors


def test_one_state_dict_is_chosen(nested):
    (part,) = inspect(nested, "ema").parts
    assert part.key == "ema" and len(part.tensors) == 1


def test_nothing_is_read(nested, monkeypatch):
    monkeypatch.setattr(regions.Stored, "read", lambda self: pytest.fail("a tensor was read"))
    assert len(inspect(nested).parts) == 2


def test_the_other_formats(tmp_path):
    arrays = {"params/fc/kernel": np.ones((2, 3), np.float32), "params/fc/bias": np.zeros(3, np.float32)}
    for name in ("m.msgpack", "m.safetensors", "m.npz", "orbax"):
        write(tmp_path / name, Outputs.of(arrays), Options({}))
        (part,) = inspect(tmp_path / name).parts
        assert {(e.key, e.shape, e.dtype, e.nbytes) for e in part.tensors} == {
            ("params/fc/kernel", (2, 3), "float32", 24),
            ("params/fc/bias", (3,), "float32", 12),
        }


def test_what_managers_of_checkpoints_keep(tmp_path):
    """Orbax's and Flax's: folders by the number of the step, files without an ending."""
    tree = {"params": {"w": np.ones((2, 3), np.float32)}}
    for step in (5, 10):
        with ocp.StandardCheckpointer() as saver:
            saver.save(tmp_path / "run" / str(step) / "default", tree)
        if step == 5:
            assert inspect(tmp_path / "run").parts[0].tensors[0].key == "params/w"
    with pytest.raises(PortError, match="holds 2 Orbax checkpoints: 5/default, 10/default"):
        inspect(tmp_path / "run")
    assert inspect(tmp_path / "run" / "10").format == "Orbax"
    (tmp_path / "checkpoint_7").write_bytes(to_bytes(tree))
    assert inspect(tmp_path / "checkpoint_7").format == "Flax msgpack"
    assert list(read(tmp_path / "checkpoint_7")[0]) == ["params/w"]


def test_the_command(nested, tmp_path):
    run = CliRunner().invoke(app, ["inspect", str(nested)])
    assert run.exit_code == 0, run.output
    for word in ("torch.save", "--key model", "--key ema", "tied.weight", "shares fc.weight", "not a tensor: args"):
        assert word in run.output
    run = CliRunner().invoke(app, ["inspect", "--json", str(nested)])
    assert [part["key"] for part in json.loads(run.stdout)["parts"]] == ["model", "ema"]
    save_file({"module.w": torch.ones(2)}, tmp_path / "m.safetensors")
    run = CliRunner().invoke(app, ["inspect", str(tmp_path / "m.safetensors")])
    assert "prefix 'module.' was taken off" in run.output and "1 tensor, 8 bytes" in run.output
    run = CliRunner().invoke(app, ["inspect", str(tmp_path / "none.pt")])
    assert run.exit_code == 2 and "WPT001" in run.output

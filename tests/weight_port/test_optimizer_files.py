"""The optimizer's state beside the weights: ported by file, trained on in the other framework, and brought back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
import torch
from flax import serialization
from safetensors.numpy import load_file, save_file

from migrate.manifest import Manifest
from tests.weight_port.test_optimizer_state import RELATIVE, STEPS, WEIGHTS, Optax, Torch, as_arrays
from weight_port import OptimizerOptions, PortError, port_weights, restore_optax
from weight_port.optimizer_chains import chain_of
from weight_port.optimizer_state import named, read_optimizer_state

ALL = "model.parameters()"
AUTO = OptimizerOptions("auto", names=ALL)
MANIFEST = Manifest("train.py", "linen", (WEIGHTS,))
Make = Callable[..., torch.optim.Optimizer]
# What optax has no exact form of goes into the transformations that a rewritten script brings along.
OPTIMIZERS: dict[str, Make] = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "Adam, amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, weight_decay=1e-3),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=1e-2),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=1e-2),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=1e-3),
    "SGD, dampened": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, dampening=0.5, nesterov=False),
    "Adagrad, decaying": lambda p: torch.optim.Adagrad(p, lr=1e-1, lr_decay=1e-2),
}


def saved(run: Torch, path: Path) -> None:
    torch.save({"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict(), "epoch": 1}, path)


def chain(path: Path) -> optax.GradientTransformation:
    state = read_optimizer_state(path)
    return chain_of("auto", named(state, [name for name, _ in Torch(OPTIMIZERS["NAdam"]).model.named_parameters()]),
                    state["state"][0]).transformation  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_run_goes_on_in_optax_and_its_checkpoint_comes_back(name: str, tmp_path: Path) -> None:
    expected = Torch(OPTIMIZERS[name]).run(0, 2 * STEPS)
    before = Torch(OPTIMIZERS[name])
    losses = before.run(0, STEPS)
    saved(before, tmp_path / "last.pt")
    port_weights(tmp_path / "last.pt", MANIFEST, tmp_path / "last.msgpack", optimizer=AUTO, verify=True)
    tree = serialization.msgpack_restore((tmp_path / "last.msgpack").read_bytes())
    after = Optax(chain(tmp_path / "last.pt"), {"params": tree["params"]})
    after.state = serialization.from_state_dict(after.state, tree["opt_state"])
    np.testing.assert_allclose([*losses, *after.run(STEPS, 2 * STEPS)], expected, rtol=RELATIVE)

    back = OptimizerOptions("auto", tmp_path / "last.pt", names=ALL, step=STEPS)
    port_weights(tmp_path / "last.msgpack", MANIFEST, tmp_path / "back.pt", reverse=True, optimizer=back)
    found, wanted = torch.load(tmp_path / "back.pt"), torch.load(tmp_path / "last.pt")
    assert found["optimizer"]["param_groups"] == wanted["optimizer"]["param_groups"]
    for index, entry in wanted["optimizer"]["state"].items():
        for key, value in entry.items():
            torch.testing.assert_close(found["optimizer"]["state"][index][key], value, rtol=0, atol=0)


def test_a_rate_that_a_scheduler_set(tmp_path: Path) -> None:
    """The rate is a part of the state, by name; the moments stay where the file keeps no empty maps."""
    run = Torch(lambda p: torch.optim.Adam(p, lr=1e-2))
    scheduler = torch.optim.lr_scheduler.StepLR(run.optimizer, 1, gamma=0.5)
    run.run(0, 3)
    scheduler.step()
    saved(run, tmp_path / "last.pt")
    port_weights(tmp_path / "last.pt", MANIFEST, tmp_path / "o.safetensors", optimizer=AUTO)
    flat = load_file(tmp_path / "o.safetensors")
    state = {name: array for name, array in flat.items() if name.startswith("opt_state/")}
    after = Optax(chain(tmp_path / "last.pt"), {"params": run_params(flat)})
    after.state = restore_optax(after.state, state)
    assert float(after.state.hyperparams["learning_rate"]) == np.float32(5e-3)
    np.testing.assert_allclose(after.run(3, 9), run.run(3, 9), rtol=RELATIVE)
    with pytest.raises(PortError, match="opt_state/0/mu/first/kernel"):
        restore_optax(optax.sgd(0.1).init(run_params(flat)), {"opt_state/0/mu/first/kernel": np.zeros((6, 8))})


def run_params(flat: dict[str, np.ndarray]) -> Any:
    return {
        layer: {leaf: flat[f"params/{layer}/{leaf}"] for leaf in ("kernel", "bias")} for layer in ("first", "second")
    }


def test_parameters_without_a_state_start_as_the_chain_does(tmp_path: Path) -> None:
    """Names from a file, by group; a weight that never had a gradient; a state in a file of its own."""
    run = Torch(lambda p: torch.optim.Adam(p))
    run.optimizer = torch.optim.Adam([{"params": run.model.second.parameters()}, {"params": run.model.first.weight}])
    run.run(0, 2)
    torch.save(run.optimizer.state_dict(), tmp_path / "optimizer.pt")
    torch.save(run.model.state_dict(), tmp_path / "m.pt")
    (tmp_path / "names.json").write_text(json.dumps([["second.weight", "second.bias"], ["first.weight"]]))
    asked = OptimizerOptions("optax.adam(1e-3)", tmp_path / "optimizer.pt", names=str(tmp_path / "names.json"))
    report = port_weights(tmp_path / "m.pt", MANIFEST, tmp_path / "o.safetensors", optimizer=asked)
    flat = load_file(tmp_path / "o.safetensors")
    expected = as_arrays(run.optimizer.state_dict())["state"]
    assert np.array_equal(flat["opt_state/0/mu/first/kernel"], expected[2]["exp_avg"].T)
    assert not flat["opt_state/0/nu/first/bias"].any()
    assert flat["opt_state/0/count"] == 2
    assert "the optimizer is optax.adam(1e-3)" in report.notes


@pytest.mark.parametrize(
    ("options", "make", "code", "said"),
    [
        ({}, lambda p: torch.optim.Adam(p), "WPT120", "--param-names"),
        ({"names": "none.json"}, lambda p: torch.optim.Adam(p), "WPT001", "cannot open none.json"),
        ({"names": ALL, "key": "ema"}, lambda p: torch.optim.Adam(p), "WPT004", "--optimizer-key"),
        ({"names": ALL, "chain": "optax.sgd(0.1)"}, lambda p: torch.optim.Adam(p), "WPT121", "no place for exp_avg"),
        ({"names": ALL, "chain": "optax.adam"}, lambda p: torch.optim.Adam(p), "WPT009", "not an optax transformation"),
        ({"names": ALL, "chain": "adam(1)"}, lambda p: torch.optim.Adam(p), "WPT009", "name 'adam' is not defined"),
        ({"names": ALL}, lambda p: torch.optim.ASGD(p), "WPT121", "ASGD"),
        ({"names": ALL}, lambda p: torch.optim.Adafactor(p), "WPT121", "beta2_decay"),
        ({"names": ALL}, lambda p: torch.optim.Adam([{"params": [w], "eps": 0.1**i} for i, w in enumerate(p)]),
         "WPT121", "4 groups"),
    ],
)  # fmt: skip
def test_refused(options: dict[str, Any], make: Make, code: str, said: str, tmp_path: Path) -> None:
    run = Torch(make)
    run.run(0, 1)
    saved(run, tmp_path / "last.pt")
    with pytest.raises(PortError) as caught:
        port_weights(tmp_path / "last.pt", MANIFEST, tmp_path / "o.msgpack",
                     optimizer=OptimizerOptions(**{"chain": "auto"} | options))  # fmt: skip
    assert caught.value.code == code and said in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_a_file_that_does_not_keep_the_order_of_the_parameters(tmp_path: Path) -> None:
    run = Torch(lambda p: torch.optim.Adam(p))
    saved(run, tmp_path / "last.pt")
    save_file(as_arrays(run.model.state_dict()), tmp_path / "m.safetensors")
    asked = OptimizerOptions("auto", tmp_path / "last.pt", names=ALL)
    with pytest.raises(PortError, match="does not keep the order"):
        port_weights(tmp_path / "m.safetensors", MANIFEST, tmp_path / "o", optimizer=asked)


@pytest.mark.parametrize("name", ["optimizer.bin", None])
def test_weights_alone_have_no_optimizer(name: str | None, tmp_path: Path) -> None:
    """Accelerate and transformers' Trainer save it beside them."""
    save_file({key: value.numpy() for key, value in Torch(OPTIMIZERS["AdamW"]).model.state_dict().items()},
              tmp_path / "model.safetensors")  # fmt: skip
    if name:
        (tmp_path / name).touch()
    said = str(tmp_path / name) if name else "FILE"
    with pytest.raises(PortError, match=f"WPT120: .* holds weights alone\n.*--optimizer-from {said}"):
        port_weights(tmp_path, MANIFEST, tmp_path / "o", optimizer=AUTO)

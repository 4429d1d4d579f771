"""The torch half of a comparison of models; runs as the script of `run_torch`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from parity import standin
from parity.codes import ParityError
from parity.drive import MODES, Driven, leaves
from weight_port import PortError
from weight_port.checkpoint import open_checkpoint

RATE = 0.01  # of the gradient descent between the steps


def drive(config: str) -> None:
    driven = Driven(config)
    model = driven.model("torch")
    if driven.subject.weights:
        _load(model, driven.subject.weights)
    else:
        _unlike(model, driven.subject.seed)
    args, kwargs = driven.inputs()
    args, kwargs = [torch.from_numpy(a) for a in args], {name: torch.from_numpy(a) for name, a in kwargs.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for training in MODES:
        model.train(training)
        outputs = [x for x in leaves(model(*args, **kwargs)) if x.is_floating_point()]
        loss: Any = sum((x - _target(x)).square().mean() for x in outputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _target(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.asarray(standin.normal(tuple(x.shape)))).to(x.dtype)  # also of a scalar


def _load(model: torch.nn.Module, path: str) -> None:
    try:
        checkpoint = open_checkpoint(path, expected=model.state_dict())
        state = {key: torch.from_numpy(np.ascontiguousarray(checkpoint.read(key))) for key in checkpoint}
        model.load_state_dict(state)
    except (PortError, RuntimeError) as error:
        raise ParityError("PAR212", f"{path}: {error}") from None


def _unlike(model: torch.nn.Module, seed: int) -> None:
    """What starts as all zeros or all ones moves: a forgotten bias, scale or running variance would not show."""
    random = np.random.RandomState(seed + 1)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if not tensor.is_floating_point() or tensor.numel() == 0 or bool((tensor != tensor.flatten()[0]).any()):
                continue
            if float(tensor.flatten()[0]) not in (0.0, 1.0):
                continue
            noise = torch.from_numpy(random.uniform(-0.25, 0.25, tuple(tensor.shape)).astype(np.float32))
            tensor.add_(noise)

"""What torch computes: every operation as a script would call it."""

from __future__ import annotations

import numpy as np
import torch

from parity.operations.programs import functions
from parity.operations.sampling import weights
from parity.operations.table import OPERATIONS


def evaluate(text: str, arrays: dict[str, list[np.ndarray]], dtype: str) -> dict[str, np.ndarray]:
    """Values and gradients under the names `op/torch/value`, `op/torch/grad0`, ...; at a point `op@point/torch/...`."""
    torch.set_num_threads(1)
    kind, function = getattr(torch, dtype), functions(text, lambda module: module)
    found: dict[str, np.ndarray] = {}
    for key, inputs in arrays.items():
        name = key.partition("@")[0]
        args = [torch.from_numpy(a).to(kind if a.dtype.kind == "f" else torch.int64) for a in inputs]
        floats = [args[i].requires_grad_() for i in OPERATIONS[name].differentiable(inputs)]
        value = function(name)(*args)
        weighted = value * torch.from_numpy(weights(tuple(value.shape))).to(kind)
        gradients = torch.autograd.grad(weighted.sum(), floats, allow_unused=True, materialize_grads=True)
        found[f"{key}/torch/value"] = _wide(value)
        found |= {f"{key}/torch/grad{i}": _wide(gradient) for i, gradient in enumerate(gradients)}
    return found


def _wide(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()

"""What torch computes: every operation as a script would call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from parity.operations.table import OPERATIONS, weights


def _attention(causal: bool) -> Callable[..., torch.Tensor]:
    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)

    return run


FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "silu": F.silu,
    "erf": torch.erf,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": F.elu,
    "mish": F.mish,
    "lgamma": torch.lgamma,
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "prod": lambda x: x.prod(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y.long()),
    "label_smoothing": lambda x, y: F.cross_entropy(x, y.long(), label_smoothing=0.1),
    "kl_div": lambda x, y: F.kl_div(F.log_softmax(x, -1), y, reduction="batchmean"),
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, eps=1e-6),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "group_norm": lambda x, w, b: F.group_norm(x, 4, w, b),
    "attention": _attention(False),
    "causal_attention": _attention(True),
    "linear": F.linear,
    "conv2d": lambda x, w, b: F.conv2d(x, w, b, padding=1),
}


def evaluate(names: list[str], arrays: dict[str, list[np.ndarray]], dtype: str) -> dict[str, np.ndarray]:
    """Values and gradients under the names `op/torch/value`, `op/torch/grad0`, ..."""
    torch.set_num_threads(1)
    kind = getattr(torch, dtype)
    found: dict[str, np.ndarray] = {}
    for name in names:
        args = [torch.from_numpy(a).to(kind) if a.dtype.kind == "f" else torch.from_numpy(a) for a in arrays[name]]
        floats = [a.requires_grad_() for a in args if a.is_floating_point()]
        value = FUNCTIONS[name](*args)
        weighted = value * torch.from_numpy(weights(tuple(value.shape))).to(kind)
        gradients = torch.autograd.grad(weighted.sum(), floats)
        found[f"{name}/torch/value"] = _wide(value)
        found |= {f"{name}/torch/grad{i}": _wide(gradient) for i, gradient in enumerate(gradients)}
        if OPERATIONS[name].elementwise:
            special = torch.from_numpy(arrays[f"{name}/special"][0]).to(kind)
            found[f"{name}/torch/special"] = _wide(FUNCTIONS[name](special))
    return found


def _wide(tensor: Any) -> np.ndarray:
    return tensor.detach().double().numpy()

"""Torch with the matrix products of an accelerator: the operands of each are rounded, forwards and backwards alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from parity.record import MANTISSA_BITS

# Which arguments of an operation are multiplied: of addmm all but the first.
_OPERANDS = {
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addbmm": (1, 2),
    "addmv": (1, 2), "convolution": (0, 1), "convolution_backward": (0, 1, 2), "mkldnn_rnn_layer": (0, 1, 2),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1, 2),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (0, 1, 2, 3),
}  # fmt: skip


class Products(TorchDispatchMode):
    """Below autograd, so that what is differentiated is the product itself and not the rounding."""

    def __init__(self, products: str) -> None:
        super().__init__()
        self.dropped = 23 - MANTISSA_BITS[products]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        chosen = _OPERANDS.get(func.overloadpacket.__name__, ())
        rounded = [self._rounded(arg) if place in chosen else arg for place, arg in enumerate(args)]
        return func(*rounded, **(kwargs or {}))

    def _rounded(self, value: Any) -> Any:
        """To nearest, ties to even; NaN and infinities stay what they are."""
        if not isinstance(value, Tensor) or value.dtype != torch.float32:
            return value
        bits = value.contiguous().view(torch.int32)
        odd = (bits >> self.dropped) & 1
        half = (1 << (self.dropped - 1)) - 1
        rounded = ((bits + (half + odd)) & -(1 << self.dropped)).view(torch.float32)
        return torch.where(value.isfinite(), rounded, value)


def install(products: str) -> None:
    """From here on the products of this process are rounded to `products`, of MANTISSA_BITS."""
    Products(products).__enter__()

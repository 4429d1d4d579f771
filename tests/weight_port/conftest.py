"""Fixtures: torch state dicts of every kind, as the bytes that torch itself writes."""

from collections import OrderedDict

import pytest
import torch

from tests.compiling import compile_by_llvm_alone, soon_compiled

__all__ = ["soon_compiled", "tensors"]

compile_by_llvm_alone()

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16,
]  # fmt: skip


@pytest.fixture
def tensors() -> OrderedDict[str, torch.Tensor]:
    """Every element type; strided, expanded and shared storage; empty, scalar, parameter."""
    made = OrderedDict()
    generator = torch.Generator().manual_seed(0)
    for dtype in DTYPES:
        size = torch.empty((), dtype=dtype).element_size()
        raw = torch.randint(0, 2 if dtype == torch.bool else 256, (3, 4, size), dtype=torch.uint8, generator=generator)
        made[f"types.{str(dtype).removeprefix('torch.')}"] = raw.view(dtype).reshape(3, 4)
    base = torch.arange(24.0).reshape(4, 6)
    made["transposed"] = base.t()
    made["sliced"] = base[1:3, ::2]
    made["shared"] = base[2]
    made["expanded"] = torch.tensor([[1.0], [2.0]]).expand(2, 5)
    made["empty"] = torch.empty(0, 3)
    made["scalar"] = torch.tensor(2.5)
    made["parameter"] = torch.nn.Parameter(torch.tensor([float("nan"), -0.0, float("inf")]))
    return made

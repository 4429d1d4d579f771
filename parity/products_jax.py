"""JAX with the matrix products of an accelerator: how each product is lowered, forwards and backwards alike.

A product of float32 operands whose precision is the default rounds them as the accelerator does; one for which the
program asks more (`precision="highest"`, `jax.default_matmul_precision`) is left in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax._src.interpreters import mlir  # the rules that there are can be read nowhere else

from parity.record import MANTISSA_BITS

_DEFAULT = (None, (lax.Precision.DEFAULT, lax.Precision.DEFAULT))
_DONE = (lax.Precision.HIGHEST, lax.Precision.HIGHEST)  # which the CPU ignores


def install(products: str) -> None:
    """From here on the products of this process are rounded to `products`, of MANTISSA_BITS."""
    for primitive in (lax.dot_general_p, lax.conv_general_dilated_p):
        mlir.register_lowering(primitive, _rule(primitive, MANTISSA_BITS[products]), platform="cpu")


def _rule(primitive: Any, bits: int) -> Callable[..., Any]:
    entry = mlir._platform_specific_lowerings["cpu"].get(primitive) or mlir._lowerings[primitive]

    def rounded(*operands: Any, **params: Any) -> Any:
        operands = tuple(lax.reduce_precision(operand, exponent_bits=8, mantissa_bits=bits) for operand in operands)
        return primitive.bind(*operands, **params | {"precision": _DONE})

    def rule(context: Any, *operands: Any, **params: Any) -> Any:
        narrow = all(aval.dtype == jnp.float32 for aval in context.avals_in)
        if narrow and params["precision"] in _DEFAULT:
            return mlir.lower_fun(rounded, multiple_results=False)(context, *operands, **params)
        return entry.rule(context, *operands, **params)

    return rule

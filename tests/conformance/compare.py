"""How two results are compared: structure, shape, type, the places of NaN and infinity, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Largest difference of an element over the RMS of the whole, for each type of result.
LIMITS = {
    # Spacing 2.2e-16; sums of at most some thousand terms and functions that are good to a few units in the last place
    # make 1e-14. The smallest mistake known (an epsilon of 1e-6 for 1e-5) makes 1e-6.
    "float64": 1e-12,
    # The same argument with a spacing of 1.2e-7. XLA's exp, tanh and log are good to a few units in the last place, and
    # an argument of 20 or so multiplies the rounding of what went before by as much.
    "float32": 5e-6,
    # Results that a script asks for in 16 bits are rounded once: one unit in the last place.
    "float16": 2**-10,
    "bfloat16": 2**-7,
}


# Where one of the frameworks itself is less exact in float64 than its type: by how much the limit is widened.
COARSE = {
    # JAX's digamma and polygamma are sums that end at 1e-9 of the result.
    "torch.special.digamma": 1e4,
    "torch.special.polygamma": 1e4,
    "torch.distributions.Beta": 1e4,
    "torch.distributions.Gamma": 1e4,
    "torch.distributions.Dirichlet": 1e4,
    # The gradient along an axis of one element is zero: terms as large as the inverse of the element cancel.
    "torch.nn.functional.normalize": 16,
    # torch's gradient has 1 / 6 in float32.
    "torch.nn.functional.hardsigmoid": 1e6,
}


@dataclass(frozen=True)
class Difference:
    """What differs, in words, and by how much relative to what is allowed (infinite where it is not about numbers)."""

    what: str
    excess: float = float("inf")


def flat(value: Any) -> list[np.ndarray]:
    """The arrays in nested tuples, lists and dicts (of either framework), in order; None as nothing."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in flat(value[key])]
    if isinstance(value, tuple | list):
        return [array for part in value for array in flat(part)]
    if hasattr(value, "detach"):
        value = value.detach().resolve_conj().resolve_neg()
        if str(value.dtype) == "torch.bfloat16":
            import ml_dtypes

            return [value.view(dtype=__import__("torch").int16).numpy().view(ml_dtypes.bfloat16)]
        value = value.to_dense().numpy()
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return [np.stack([array.real, array.imag], axis=-1)]
    return [array]


# A sum may cancel: then its terms, as large as what went in, leave some units in their own last place behind.
CANCELLED = 16 * 2.0**-53
_BITS = {"float64": 1.0, "float32": 2.0**29, "float16": 2.0**42, "bfloat16": 2.0**45}


def differences(torch_value: Any, jax_value: Any, largest: float = 0.0, factor: float = 1.0) -> list[Difference]:
    """Every way in which the results differ.

    largest: the size of the largest input. factor: widens the limits, for a reason that the caller states.
    """
    ours, theirs = flat(jax_value), flat(torch_value)
    if len(ours) != len(theirs):
        return [Difference(f"{len(theirs)} results in torch, {len(ours)} in JAX")]
    found = []
    for number, (wanted, got) in enumerate(zip(theirs, ours, strict=True)):
        found += _array(f"result {number}", wanted, got, largest, factor)
    return found


def _array(name: str, wanted: np.ndarray, got: np.ndarray, largest: float, factor: float) -> list[Difference]:
    if wanted.shape != got.shape:
        return [Difference(f"{name}: shape {wanted.shape} in torch, {got.shape} in JAX")]
    if _type(wanted) != _type(got):
        return [Difference(f"{name}: {wanted.dtype} in torch, {got.dtype} in JAX")]
    if wanted.dtype.kind in "biu":
        return [] if np.array_equal(wanted, got) else [Difference(f"{name}: {wanted} in torch, {got} in JAX")]
    limit, cancelled = LIMITS[str(got.dtype)] * factor, CANCELLED * _BITS[str(got.dtype)] * largest * factor
    wanted, got = wanted.astype(np.float64), got.astype(np.float64)
    odd = ~np.isfinite(wanted)
    if not np.array_equal(np.where(odd, wanted, 0), np.where(np.isfinite(got), 0, got), equal_nan=True):
        return [Difference(f"{name}: NaN or infinity at other places: {wanted} in torch, {got} in JAX")]
    wanted, got = np.where(odd, 0, wanted), np.where(odd, 0, got)
    size = float(np.sqrt(np.mean(np.square(wanted)))) if wanted.size else 0.0
    error = float(np.max(np.abs(wanted - got), initial=0.0))
    allowed = max(limit * size, cancelled)
    if error <= allowed:
        return []
    return [Difference(f"{name}: differs by {error:.3g}, its RMS is {size:.3g}", error / (allowed or 1e-300))]


def _type(array: np.ndarray) -> str:
    """Floats are told apart by width, integers not: 64 bits in torch are 32 in JAX."""
    if array.dtype.kind in "iu":
        return "integer"
    return str(array.dtype)


def assert_equal(
    torch_value: Any, jax_value: Any, largest: float = 0.0, factor: float = 1.0, where: Sequence[object] = ()
) -> None:
    found = differences(torch_value, jax_value, largest, factor)
    assert not found, "; ".join([*map(str, where), *(difference.what for difference in found)])

"""Small programs that show each hazard here. Run in a process of its own: `python -m parity.hazards.probes`.

A probe gives what was seen, and whether the hazard is present on this device with these versions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch.nn.functional as F

Seen = tuple[bool, str]
RANDOM = np.random.default_rng(0)
KEY = jax.random.key(0)
EXACT_ROUNDING = {"xla_allow_excess_precision": False}


def _platform() -> str:
    return jax.devices()[0].platform


def dropped_token() -> Seen:
    """The threshold is rounded to bfloat16, what it is compared with is not: the most probable token falls below."""
    rows = 2000
    logits, bias = (jnp.asarray(RANDOM.normal(size=(rows, 64)), jnp.bfloat16) for _ in range(2))

    def kept(logits: jax.Array, bias: jax.Array) -> jax.Array:
        scores = logits * bias
        threshold = jax.lax.top_k(scores, 1)[0]
        return (scores.astype(jnp.float32) >= threshold.astype(jnp.float32)).sum(-1)

    empty = int((jax.jit(kept)(logits, bias) == 0).sum())
    exact = int((jax.jit(kept, compiler_options=EXACT_ROUNDING)(logits, bias) == 0).sum())
    eager = int((kept(logits, bias) == 0).sum())
    return empty > max(
        exact, eager
    ), f"rows of {rows} that keep no token: {empty} jitted, {exact} without, {eager} eager"


def excess_precision() -> Seen:
    a, b = (jnp.asarray(RANDOM.normal(size=10_000), jnp.bfloat16) for _ in range(2))

    def total(a: jax.Array, b: jax.Array) -> jax.Array:
        return (a + b).astype(jnp.float32)

    changed = jax.jit(total)(a, b) != jax.jit(total, compiler_options=EXACT_ROUNDING)(a, b)
    share = float(changed.mean())
    return share > 0, f"{share:.0%} of bfloat16 sums that are widened differ with XLA's excess precision"


def approximate_top_k() -> Seen:
    scores = jnp.asarray(RANDOM.normal(size=(20, 10_000)), jnp.float32)
    found = jax.lax.approx_max_k(scores, 10, recall_target=0.9)[1]
    best = jax.lax.top_k(scores, 10)[1]
    pairs = zip(np.asarray(found), np.asarray(best), strict=True)
    recall = float(np.mean([len(set(row) & set(right)) / 10 for row, right in pairs]))
    return recall < 1, f"recall {recall:.3f} on {_platform()}" + (", where it is exact" if recall == 1 else "")


def batch_invariance() -> Seen:
    a, b = RANDOM.normal(size=(512, 300)).astype(np.float32), RANDOM.normal(size=(300, 512)).astype(np.float32)
    ours = np.asarray(jnp.matmul(a, b))[:1] != np.asarray(jnp.matmul(a[:1], b))
    theirs = (torch.from_numpy(a) @ torch.from_numpy(b))[:1] != torch.from_numpy(a[:1]) @ torch.from_numpy(b)
    shares = float(ours.mean()), float(theirs.float().mean())
    return max(
        shares
    ) > 0, f"of a row alone and in a batch {shares[0]:.0%} of entries differ in JAX, {shares[1]:.0%} in torch"


def padded_batch() -> Seen:
    x, w = RANDOM.normal(size=(3, 300)).astype(np.float32), RANDOM.normal(size=(300, 64)).astype(np.float32)
    padded = np.concatenate([x, np.zeros((61, 300), np.float32)])
    share = float((np.asarray(jnp.matmul(padded, w))[:3] != np.asarray(jnp.matmul(x, w))).mean())
    return share > 0, f"{share:.0%} of entries change where a batch of 3 is padded to 64"


def ties() -> Seen:
    cases: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[float]]] = {
        "max of equals": (lambda x: torch.amax(x), jnp.max, [1.0, 1.0]),
        "max(dim) of equals": (lambda x: torch.max(x, 0).values, jnp.max, [1.0, 1.0]),
        "abs at 0": (lambda x: x.abs().sum(), lambda x: jnp.abs(x).sum(), [0.0]),
        "relu at 0": (lambda x: F.relu(x).sum(), lambda x: jax.nn.relu(x).sum(), [0.0]),
        "maximum(x, 0) at 0": (
            lambda x: torch.maximum(x, torch.zeros(1)).sum(), lambda x: jnp.maximum(x, 0).sum(), [0.0],
        ),
        "clamp at its bound": (lambda x: x.clamp(-1, 1).sum(), lambda x: jnp.clip(x, -1, 1).sum(), [1.0]),
        "norm at 0": (lambda x: x.norm(), jnp.linalg.norm, [0.0, 0.0]),
        "sqrt at 0": (lambda x: x.sqrt().sum(), lambda x: jnp.sqrt(x).sum(), [0.0]),
        "sort of equals": (
            lambda x: (x.sort().values * torch.tensor([1.0, 2.0])).sum(),
            lambda x: (jnp.sort(x) * jnp.array([1.0, 2.0])).sum(), [1.0, 1.0],
        ),
    }  # fmt: skip
    differing = []
    for name, (theirs, ours, at) in cases.items():
        x = torch.tensor(at, requires_grad=True)
        (gradient,) = torch.autograd.grad(theirs(x), x)
        other = np.asarray(jax.grad(ours)(jnp.asarray(at)))
        if not np.array_equal(gradient.numpy(), other, equal_nan=True):
            differing.append(f"{name} (torch {gradient.tolist()}, JAX {other.tolist()})")
    return bool(differing), "other gradients: " + ", ".join(differing) if differing else "the same gradients everywhere"


def gelu_default() -> Seen:
    x = np.linspace(-4, 4, 2001, dtype=np.float32)
    off = float(np.abs(F.gelu(torch.from_numpy(x)).numpy() - np.asarray(nn.gelu(x))).max())
    return off > 1e-5, f"nn.gelu(x) and F.gelu(x) differ by up to {off:.1e}: the first is the tanh form"


def epsilons() -> Seen:
    x = (RANDOM.normal(size=(4, 16)) * 1e-3).astype(np.float32)
    theirs = F.layer_norm(torch.from_numpy(x), (16,)).numpy()
    ours = np.asarray(nn.LayerNorm().apply({"params": {"scale": jnp.ones(16), "bias": jnp.zeros(16)}}, x))
    off = float(np.abs(ours - theirs).max())
    return (
        off > 1e-3,
        f"LayerNorm's default epsilon is 1e-5 in torch, 1e-6 in Flax: {off:.2g} apart on small activations",
    )


def fast_variance() -> Seen:
    x = (RANDOM.normal(size=(8, 64)) + 30).astype(np.float32)
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    off = [
        float(np.abs(nn.LayerNorm(epsilon=1e-5, use_fast_variance=fast).init_with_output(KEY, x)[0] - exact).max())
        for fast in (True, False)
    ]
    theirs = float(np.abs(F.layer_norm(torch.from_numpy(x), (64,)).numpy() - exact).max())
    seen = f"a mean of 30 spreads: Flax's norms are {off[0]:.1e} off, {off[1]:.1e} in two passes, torch's {theirs:.1e}"
    return off[0] > 4 * max(off[1], theirs), seen


def same_padding() -> Seen:
    x, kernel = RANDOM.normal(size=(1, 1, 8, 8)).astype(np.float32), np.ones((1, 1, 3, 3), np.float32)
    theirs = F.conv2d(torch.from_numpy(x), torch.from_numpy(kernel), stride=2, padding=1).numpy()
    ours = np.asarray(jax.lax.conv(jnp.asarray(x), jnp.asarray(kernel), (2, 2), "SAME"))
    off = float(np.abs(theirs - ours).max())
    return off > 1e-5, f"stride 2 on an even size: 'SAME' pads below only, padding=1 on both sides; {off:.2g} apart"


def matmul_precision() -> Seen:
    a, b = (RANDOM.normal(size=(256, 256)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    off = float(np.linalg.norm(np.asarray(jnp.matmul(a, b)) - exact) / np.linalg.norm(exact))
    lowest = np.asarray(jnp.matmul(a, b, precision="default"))
    ignored = bool(np.array_equal(lowest, np.asarray(jnp.matmul(a, b, precision="highest"))))
    note = "; precision= changes nothing here" if ignored else ""
    return off > 1e-5, f"float32 products on {_platform()} are {off:.1e} off{note}"


def schedules() -> Seen:
    count = np.arange(20)
    schedule: Any = optax.cosine_decay_schedule(1.0, 20)
    found = np.array([float(schedule(jnp.asarray(step))) for step in count])
    off = float(np.abs(found - (1 + np.cos(np.pi * count / 20)) / 2).max())
    return off > 1e-12, f"optax computes a schedule in float32, even under x64: {off:.1e} off"


def clipping() -> Seen:
    gradient = np.full(4, 10.0, np.float64)
    parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    parameter.grad = torch.from_numpy(gradient.copy())
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    norm = np.linalg.norm(gradient)
    off = float(np.abs(parameter.grad.numpy() * norm / gradient - 1).max())
    return off > 0, f"torch divides by the norm + 1e-6, optax by the norm: {off:.1e} apart"


def denormals() -> Seen:
    ours = float(jnp.float32(1e-40) * jnp.float32(1.5))
    theirs = float(torch.tensor(1e-40) * 1.5)
    return ours != theirs, f"1e-40 * 1.5 is {theirs:.1e} in torch, {ours:g} in JAX"


def unused_branch() -> Seen:
    gradient = float(jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(0.0))
    x = torch.zeros((), requires_grad=True)
    (theirs,) = torch.autograd.grad(torch.where(x > 0, torch.sqrt(x), torch.zeros(())), x)
    return bool(
        np.isnan(gradient)
    ), f"the gradient of where(x > 0, sqrt(x), 0) at 0: JAX {gradient}, torch {float(theirs)}"


def silent_nan() -> Seen:
    loss = float(jax.jit(lambda x: jnp.log(x).sum())(jnp.array([0.0, -1.0])))
    return not np.isfinite(loss), f"a loss of {loss} goes on without a word (as in torch)"


PROBES: dict[str, Callable[[], Seen]] = {
    "dropped token": dropped_token,
    "excess precision": excess_precision,
    "approximate top-k": approximate_top_k,
    "matmul precision": matmul_precision,
    "batch invariance": batch_invariance,
    "padded batch": padded_batch,
    "gradients at ties": ties,
    "gradient of an unused branch": unused_branch,
    "GELU's default": gelu_default,
    "default epsilons": epsilons,
    "fast variance": fast_variance,
    "SAME padding": same_padding,
    "schedules in float32": schedules,
    "gradient clipping": clipping,
    "denormals": denormals,
    "non-finite losses": silent_nan,
}


def main() -> None:
    torch.set_num_threads(1)
    found = {name: probe() for name, probe in PROBES.items()}
    versions = {"jax": jax.__version__, "torch": torch.__version__, "device": jax.devices()[0].device_kind}
    json.dump({"found": found, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()

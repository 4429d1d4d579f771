"""The gate is put to the test: seeded mistakes in a small GPT and CNN must all be caught, correct variants all pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F

from parity import judge
from parity import selftest_models as models
from parity.selftest_models import RATE, WARM_UP, Port

STEPS = 2

MISTAKES: dict[str, tuple[str, Port]] = {
    "a square kernel not transposed": ("gpt", Port(square_transposed=True)),
    "LayerNorm's epsilon of Flax": ("gpt", Port(norm_epsilon=1e-6)),
    "LayerNorm with the unbiased variance": ("gpt", Port(norm_unbiased=True)),
    "GELU by tanh": ("gpt", Port(gelu_tanh=True)),
    "rotary embedding by halves": ("gpt", Port(rope_halves=True)),
    "rotary embedding of another base": ("gpt", Port(rope_base=5e5)),
    "the mask lets one token ahead through": ("gpt", Port(mask_diagonal=1)),
    "the mask hides the token itself": ("gpt", Port(mask_diagonal=-1, mask_constant=-1e4)),
    "no mask": ("gpt", Port(mask_diagonal=models.LENGTH)),
    "attention not scaled by the root": ("gpt", Port(scale_power=-1.0)),
    "a dropped bias": ("gpt", Port(value_bias=False)),
    "softmax in bfloat16": ("gpt", Port(softmax_bfloat16=True)),
    "the residual of the norm": ("gpt", Port(residual_of_norm=True)),
    "positions from 1": ("gpt", Port(position_offset=1)),
    "no last norm": ("gpt", Port(last_norm=False)),
    "heads split along the wrong axis": ("gpt", Port(head_axis_first=True)),
    "labels shifted once too often": ("gpt", Port(shift_labels=True)),
    "label smoothing": ("gpt", Port(smoothing=0.1)),
    "the sum of the losses": ("gpt", Port(loss_sum=True)),
    "optax's weight decay": ("gpt", Port(decay=1e-4)),
    "weight decay in the gradient": ("gpt", Port(decoupled=False)),
    "another beta": ("gpt", Port(beta2=0.95)),
    "epsilon inside the root": ("gpt", Port(epsilon_inside=True)),
    "no bias correction": ("gpt", Port(bias_correction=False)),
    "no clipping": ("gpt", Port(clip=1e9)),
    "clipping by tensor": ("gpt", Port(clip_each=True)),
    "a schedule off by one": ("gpt", Port(schedule_offset=-1)),
    "BatchNorm's epsilon": ("cnn", Port(batch_epsilon=1e-3)),
    "BatchNorm's momentum the other way round": ("cnn", Port(batch_momentum=0.9)),
    "the biased running variance": ("cnn", Port(batch_unbiased=False)),
    "BatchNorm left in eval mode": ("cnn", Port(batch_frozen=True)),
    "SAME for padding 1": ("cnn", Port(same_padding=True)),
    "average for maximum": ("cnn", Port(pool_average=True)),
    "flattened channel-last": ("cnn", Port(flatten_last=True)),
    "another slope": ("cnn", Port(slope=0.2)),
    "a flipped kernel": ("cnn", Port(kernel_flipped=True)),
    "a dropped convolution bias": ("cnn", Port(conv_bias=False)),
}

CORRECT: dict[str, tuple[str, Port, bool]] = {
    "GPT, eager": ("gpt", Port(), False),
    "GPT, jit": ("gpt", Port(), True),
    "GPT, variance in one pass": ("gpt", Port(norm_one_pass=True), False),
    "GPT, another mask constant": ("gpt", Port(mask_constant=-1e4), False),
    "CNN, eager": ("cnn", Port(), False),
    "CNN, jit": ("cnn", Port(), True),
}


@dataclass(frozen=True)
class Tried:
    """What the gate said of one port, and every tensor of both sides."""

    name: str
    model: str
    correct: bool
    findings: tuple[judge.Check, ...]
    theirs: dict[str, np.ndarray]
    ours: dict[str, np.ndarray]

    @property
    def as_expected(self) -> bool:
        return self.correct is not bool(self.findings)

    @property
    def clearest(self) -> judge.Check | None:
        """The finding furthest beyond its limit."""
        return max(self.findings, key=lambda check: check.value / check.limit if check.limit else 0.0, default=None)

    @property
    def names(self) -> list[str]:
        return [name for name in self.theirs if not name.startswith("initial")]


def run(*, float32: bool = False) -> Iterator[Tried]:
    """Every correct variant, then every mistake. Mistakes are judged in float64; `float32` also runs them in that."""
    for name, (model, port, jitted) in CORRECT.items():
        yield tried(name, model, port, jitted=jitted, correct=True, float32=True)
    for name, (model, port) in MISTAKES.items():
        yield tried(name, model, port, jitted=False, correct=False, float32=float32)


def tried(name: str, model: str, port: Port, *, jitted: bool, correct: bool, float32: bool) -> Tried:
    """One port, judged. Without `float32` the rule for semantics alone is asked: the others need that type."""
    oracle, wide = torch_run(model, "float64"), jax_run(model, port, "float64", jitted)
    theirs, ours = oracle, wide
    if float32:
        theirs, ours = torch_run(model, "float32"), jax_run(model, port, "float32", jitted)
    found = judge.checks(name, judge.Tensors(theirs, ours, oracle, wide))
    found = [check for check in found if float32 or check.rule == judge.SEMANTICS]
    return Tried(name, model, correct, tuple(check for check in found if check.status != "pass"), theirs, ours)


@lru_cache
def torch_run(model: str, dtype: str) -> dict[str, np.ndarray]:
    """Logits, loss, gradients and state of each step, in order."""
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    net = (models.TorchGPT if model == "gpt" else models.TorchCNN)().to(kind)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 1:  # biases and scales away from 0 and 1
                parameter.add_(torch.linspace(-0.3, 0.3, parameter.numel()).to(kind))
    x, y = (torch.from_numpy(a) for a in models.inputs(model))
    x = x.to(kind) if x.is_floating_point() else x
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))
    found: dict[str, np.ndarray] = {"initial": np.zeros(0)}
    found |= {f"initial {name}": value.numpy().copy() for name, value in net.state_dict().items()}
    for step in range(1, STEPS + 1):
        logits = net(x)
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            found |= {"logits": logits.detach().numpy().copy(), "loss": loss.detach().numpy().copy()}
            found |= {
                f"gradient of {k}": p.grad.numpy().copy() for k, p in net.named_parameters() if p.grad is not None
            }
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        state = {k: v for k, v in net.state_dict().items() if v.is_floating_point()}
        found |= {f"{k} after step {step}": v.numpy().copy() for k, v in state.items()}
    return found


def jax_run(model: str, port: Port, dtype: str, jitted: bool) -> dict[str, np.ndarray]:
    with jax.enable_x64(dtype == "float64"):
        return _jax_run(model, port, dtype, jitted)


def _jax_run(model: str, port: Port, dtype: str, jitted: bool) -> dict[str, np.ndarray]:
    initial = torch_run(model, dtype)
    prefix = "initial "
    start = {k.removeprefix(prefix): jnp.asarray(v) for k, v in initial.items() if k.startswith(prefix)}
    start.pop("norm.num_batches_tracked", None)
    buffers = {k: v for k, v in start.items() if "running" in k}
    params = {k: v for k, v in start.items() if k not in buffers}
    x, y = models.inputs(model)
    x = jnp.asarray(x, dtype) if np.issubdtype(x.dtype, np.floating) else jnp.asarray(x)
    forward = models.jax_gpt if model == "gpt" else models.jax_cnn

    def loss_fn(params: Any, buffers: Any) -> Any:
        logits, changed = forward({**params, **buffers}, x, port)
        return models.cross_entropy(logits, jnp.asarray(y), port), (logits, changed)

    differentiate: Any = jax.value_and_grad(loss_fn, has_aux=True)
    differentiate = jax.jit(differentiate) if jitted else differentiate
    params = {k: np.asarray(v) for k, v in params.items()}
    m = {k: np.zeros_like(v) for k, v in params.items()}
    v = dict(m)
    found: dict[str, Any] = {}
    for step in range(1, STEPS + 1):
        (loss, (logits, changed)), gradients = differentiate(params, buffers)
        if step == 1:
            found |= {"logits": logits, "loss": loss} | {f"gradient of {k}": g for k, g in gradients.items()}
        gradients = {k: np.asarray(g) for k, g in gradients.items()}
        params, m, v = models.adamw(params, gradients, m, v, step, port)
        buffers = {**buffers, **changed}
        found |= {f"{k} after step {step}": a for k, a in (params | buffers).items()}
    return {name: np.asarray(value) for name, value in found.items()}

"""The JAX half of a comparison of models; runs as the script of `run_jax`, which puts torch's weights in."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp

from parity import standin
from parity.drive import MODES, Driven, leaves

RATE = 0.01  # as in `drive_torch`
_TRAINING = ("training", "train", "is_training")
_EVALUATING = ("deterministic", "eval", "evaluation")


def drive(config: str) -> None:
    driven = Driven(config)
    model = driven.model("jax")
    args, kwargs = driven.inputs()
    args, kwargs = [jnp.asarray(a) for a in args], {name: jnp.asarray(a) for name, a in kwargs.items()}
    key = jax.random.key(driven.subject.seed)
    rngs = dict.fromkeys(("params", "dropout", "noise", "sample", "default"), key)
    variables = _mode(model, False).init(rngs, *args, **kwargs, **_flags(model, False))
    params, state = variables["params"], {name: c for name, c in variables.items() if name != "params"}
    steps = {training: _step(model, training) for training in (False, True)}
    for training in MODES:
        params, state = steps[training](params, state, args, kwargs, rngs)


def _step(model: Any, training: bool) -> Any:
    @jax.jit
    def step(params: Any, state: Any, args: Any, kwargs: Any, rngs: Any) -> Any:
        def loss_fn(params: Any) -> Any:
            output, changed = _mode(model, training).apply(
                {"params": params, **state}, *args, **kwargs, **_flags(model, training), rngs=rngs, mutable=list(state)
            )
            outputs = [x for x in leaves(output) if jnp.issubdtype(x.dtype, jnp.floating)]
            loss = sum(jnp.mean(jnp.square(x - jnp.asarray(standin.normal(x.shape), x.dtype))) for x in outputs)
            return loss, changed

        (_, changed), gradients = jax.value_and_grad(loss_fn, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - RATE * g, params, gradients), {**state, **changed}

    return step


def _mode(model: Any, training: bool) -> Any:
    """The model in train or eval mode, where that is an attribute of it."""
    fields = {name: training for name in _TRAINING if hasattr(model, name)}
    fields |= {name: not training for name in _EVALUATING if isinstance(getattr(model, name, None), (bool, type(None)))}
    fields = {name: value for name, value in fields.items() if name in model.__dataclass_fields__}
    return model.clone(**fields) if fields else model


def _flags(model: Any, training: bool) -> dict[str, bool]:
    """The same as an argument of its call."""
    accepted = inspect.signature(type(model).__call__).parameters
    flags = {name: training for name in _TRAINING if name in accepted}
    return flags | {name: not training for name in _EVALUATING if name in accepted}

"""Which operations are compared, and what they are fed: drawn in numpy, so that both sides get the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Draw: TypeAlias = Callable[[np.random.Generator, int], tuple[np.ndarray, ...]]

# fed to elementwise operations besides the samples: what is special about each is its name
SPECIAL = {
    "0": 0.0, "-0": -0.0, "inf": np.inf, "-inf": -np.inf, "nan": np.nan, "denormal": 1e-40, "-denormal": -1e-40,
    "largest": 3.4028235e38, "smallest normal": 1.1754944e-38, "1": 1.0, "-1": -1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """`draw(random, samples)` gives the inputs; those that are floats are differentiated by. `elementwise`: special
    values are tried too, and errors are counted in units in the last place."""

    name: str
    draw: Draw
    elementwise: bool = False


def _log_uniform(low: float, high: float, *, signed: bool = True, around: float = 0.0) -> Draw:
    """Magnitudes from low to high, each power of two as likely as any other."""

    def draw(random: np.random.Generator, samples: int) -> tuple[np.ndarray, ...]:
        size = np.exp(random.uniform(np.log(low), np.log(high), samples))
        sign = random.choice([-1.0, 1.0], samples) if signed else 1.0
        return (around + sign * size,)

    return draw


def _normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Draw:
    return lambda random, samples: tuple(random.normal(scale=scale, size=shape) for shape in shapes)


def _classes(rows: int, classes: int) -> Draw:
    return lambda random, samples: (
        random.normal(scale=3, size=(rows, classes)),
        random.integers(0, classes, rows).astype(np.int32),
    )


def _probabilities(rows: int, classes: int) -> Draw:
    def draw(random: np.random.Generator, samples: int) -> tuple[np.ndarray, ...]:
        logits, target = random.normal(size=(2, rows, classes))
        target = np.exp(target) / np.exp(target).sum(-1, keepdims=True)
        return logits, target

    return draw


def _binary(shape: tuple[int, ...]) -> Draw:
    return lambda random, samples: (random.normal(scale=4, size=shape), random.uniform(size=shape))


_WIDE = _log_uniform(1e-30, 80.0)
_ACTIVATION = _log_uniform(1e-6, 12.0)

OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        *(
            Operation(name, draw, elementwise=True)
            for name, draw in {
                "exp": _WIDE,
                "expm1": _WIDE,
                "log": _log_uniform(1e-37, 1e38, signed=False),
                "log1p": _log_uniform(1e-30, 1e30, signed=False),
                "sqrt": _log_uniform(1e-37, 1e38, signed=False),
                "rsqrt": _log_uniform(1e-37, 1e38, signed=False),
                "sin": _log_uniform(1e-20, 1e3),
                "cos": _log_uniform(1e-20, 1e3),
                "tanh": _log_uniform(1e-20, 20.0),
                "sigmoid": _log_uniform(1e-20, 80.0),
                "softplus": _log_uniform(1e-6, 80.0),
                "silu": _log_uniform(1e-20, 40.0),
                "erf": _log_uniform(1e-20, 5.0),
                "gelu": _ACTIVATION,
                "gelu_tanh": _ACTIVATION,
                "elu": _ACTIVATION,
                "mish": _ACTIVATION,
                "lgamma": _log_uniform(1e-6, 1e6, signed=False),
            }.items()
        ),
        Operation("sum", _normal((64, 1000))),
        Operation("mean", _normal((64, 1000))),
        Operation("var", _normal((64, 1000))),
        Operation("norm", _normal((64, 1000))),
        Operation("prod", _normal((64, 30))),
        Operation("cumsum", _normal((16, 500))),
        Operation("logsumexp", _normal((32, 200), scale=5)),
        Operation("softmax", _normal((32, 200), scale=5)),
        Operation("log_softmax", _normal((32, 200), scale=5)),
        Operation("cross_entropy", _classes(64, 50)),
        Operation("label_smoothing", _classes(64, 50)),
        Operation("kl_div", _probabilities(32, 50)),
        Operation("mse_loss", _normal((64, 50), (64, 50))),
        Operation("l1_loss", _normal((64, 50), (64, 50))),
        Operation("smooth_l1_loss", _normal((64, 50), (64, 50))),
        Operation("bce_with_logits", _binary((64, 50))),
        Operation("layer_norm", _normal((32, 128), (128,), (128,))),
        Operation("rms_norm", _normal((32, 128), (128,))),
        Operation("batch_norm", _normal((16, 8, 12), (8,), (8,))),
        Operation("group_norm", _normal((4, 8, 25), (8,), (8,))),
        Operation("attention", _normal((2, 12, 2, 16), (2, 12, 2, 16), (2, 12, 2, 16))),
        Operation("causal_attention", _normal((2, 12, 2, 16), (2, 12, 2, 16), (2, 12, 2, 16))),
        Operation("linear", _normal((16, 64), (32, 64), (32,))),
        Operation("conv2d", _normal((2, 3, 10, 10), (6, 3, 3, 3), (6,))),
    )
}


def inputs(operation: Operation, samples: int, seed: int) -> tuple[np.ndarray, ...]:
    """What the operation is fed, floats as float64."""
    return operation.draw(np.random.default_rng([seed, *operation.name.encode()]), samples)


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """What an output is multiplied by before it is summed, to be differentiated: no symmetry hides an error."""
    return np.random.default_rng(7).uniform(0.5, 1.5, size=shape)

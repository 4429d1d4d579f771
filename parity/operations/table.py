"""Which operations are compared: each as a script calls it in torch; in JAX it is what the rewriter makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parity.operations.sampling import (
    Draw,
    Points,
    at,
    at_pairs,
    classes,
    counts,
    log_uniform,
    normal,
    probabilities,
    signs,
    together,
    uniform,
)


@dataclass(frozen=True)
class Operation:
    """`torch` is an expression of the inputs `of`, which `draw` gives; floats are differentiated by, up to a semicolon.

    `points` are tried besides the samples: special values, and ties, where a slope is a convention. `elementwise`: the
    number of samples is asked for. `flax`: the layer of Flax that the rewriter writes for torch's layer.
    """

    name: str
    torch: str
    of: str
    draw: Draw
    elementwise: bool = False
    points: Points = field(default_factory=dict)
    flax: str = ""

    @property
    def inputs(self) -> list[str]:
        return self.of.replace(";", " ").split()

    def differentiable(self, arrays: Sequence[Any]) -> list[int]:
        """The places of the inputs that are differentiated by."""
        before = len(self.of.partition(";")[0].split())
        return [i for i, array in enumerate(arrays[:before]) if array.dtype.kind == "f"]


def _of_one(name: str, torch: str, draw: Draw, *bends: float) -> Operation:
    return Operation(name, torch, "x", draw, True, at(*bends))


def _of_two(name: str, torch: str, one: Draw, other: Draw, *more: tuple[float, float]) -> Operation:
    return Operation(name, torch, "x y", together(one, other), True, at_pairs(*more))


_WIDE = log_uniform(1e-30, 80.0)
_ACTIVATION = log_uniform(1e-6, 12.0)
_POSITIVE = log_uniform(1e-37, 1e38, signed=False)
_INSIDE = log_uniform(1e-20, 0.999)
_ANY = log_uniform(1e-18, 1e18)
_MEDIUM = log_uniform(1e-3, 1e3)

_ELEMENTWISE = (
    _of_one("exp", "torch.exp(x)", _WIDE),
    _of_one("exp2", "torch.exp2(x)", _WIDE),
    _of_one("expm1", "torch.expm1(x)", _WIDE),
    _of_one("log", "torch.log(x)", _POSITIVE),
    _of_one("log2", "torch.log2(x)", _POSITIVE),
    _of_one("log10", "torch.log10(x)", _POSITIVE),
    _of_one("log1p", "torch.log1p(x)", log_uniform(1e-30, 1e30, signed=False)),
    _of_one("sqrt", "torch.sqrt(x)", _POSITIVE),
    _of_one("rsqrt", "torch.rsqrt(x)", _POSITIVE),
    _of_one("reciprocal", "torch.reciprocal(x)", _ANY),
    _of_one("square", "torch.square(x)", log_uniform(1e-18, 1e18)),
    _of_one("sin", "torch.sin(x)", log_uniform(1e-20, 1e3)),
    _of_one("cos", "torch.cos(x)", log_uniform(1e-20, 1e3)),
    _of_one("tan", "torch.tan(x)", log_uniform(1e-20, 1e3)),
    _of_one("asin", "torch.asin(x)", _INSIDE),
    _of_one("acos", "torch.acos(x)", _INSIDE),
    _of_one("atan", "torch.atan(x)", _ANY),
    _of_one("sinh", "torch.sinh(x)", _WIDE),
    _of_one("cosh", "torch.cosh(x)", _WIDE),
    _of_one("tanh", "torch.tanh(x)", log_uniform(1e-20, 20.0)),
    _of_one("asinh", "torch.asinh(x)", _ANY),
    _of_one("acosh", "torch.acosh(x)", log_uniform(1e-6, 1e18, signed=False, around=1.0)),
    _of_one("atanh", "torch.atanh(x)", _INSIDE),
    _of_one("erf", "torch.erf(x)", log_uniform(1e-20, 5.0)),
    _of_one("erfc", "torch.erfc(x)", log_uniform(1e-20, 9.0)),
    _of_one("lgamma", "torch.lgamma(x)", log_uniform(1e-6, 1e6, signed=False), 2.0),
    _of_one("digamma", "torch.digamma(x)", log_uniform(1e-6, 1e6, signed=False)),
    _of_one("logit", "torch.logit(x)", log_uniform(1e-30, 0.999, signed=False)),
    _of_one("sinc", "torch.sinc(x)", log_uniform(1e-3, 1e2)),
    _of_one("abs", "torch.abs(x)", _ANY),
    _of_one("sign", "torch.sign(x)", _ANY),
    _of_one("round", "torch.round(x)", _MEDIUM, 0.5, 1.5),
    _of_one("clamp", "torch.clamp(x, -1, 1)", _ACTIVATION),
    _of_one("nan_to_num", "torch.nan_to_num(x)", _ACTIVATION),
    # activations
    _of_one("sigmoid", "torch.sigmoid(x)", log_uniform(1e-20, 80.0)),
    _of_one("log_sigmoid", "F.logsigmoid(x)", log_uniform(1e-20, 80.0)),
    _of_one("softplus", "F.softplus(x)", log_uniform(1e-6, 80.0), 20.0),
    _of_one("silu", "F.silu(x)", log_uniform(1e-20, 40.0)),
    _of_one("mish", "F.mish(x)", _ACTIVATION),
    _of_one("gelu", "F.gelu(x)", _ACTIVATION),
    _of_one("gelu_tanh", 'F.gelu(x, approximate="tanh")', _ACTIVATION),
    _of_one("relu", "F.relu(x)", _ACTIVATION),
    _of_one("relu6", "F.relu6(x)", _ACTIVATION, 6.0),
    _of_one("leaky_relu", "F.leaky_relu(x)", _ACTIVATION),
    _of_one("elu", "F.elu(x)", _ACTIVATION),
    _of_one("selu", "F.selu(x)", _ACTIVATION),
    _of_one("celu", "F.celu(x, 2.0)", _ACTIVATION),
    _of_one("softsign", "F.softsign(x)", _ACTIVATION),
    _of_one("hardtanh", "F.hardtanh(x)", _ACTIVATION),
    _of_one("hardsigmoid", "F.hardsigmoid(x)", _ACTIVATION, 3.0, -3.0),
    _of_one("hardswish", "F.hardswish(x)", _ACTIVATION, 3.0, -3.0),
    _of_one("softshrink", "F.softshrink(x)", _ACTIVATION, 0.5, -0.5),
    _of_one("hardshrink", "F.hardshrink(x)", _ACTIVATION, 0.5, -0.5),
    _of_one("tanhshrink", "F.tanhshrink(x)", _ACTIVATION),
    _of_one("threshold", "F.threshold(x, 0.5, 0.0)", _ACTIVATION, 0.5),
    Operation("prelu", "F.prelu(x, w)", "x w", normal((64, 8), (1,)), points={"0": ([[0.0]], [0.25])}),
    # of two arguments
    _of_two("div", "x / y", _ANY, _ANY),
    _of_two("pow", "x ** y", log_uniform(1e-6, 1e6, signed=False), log_uniform(1e-3, 6.0), (-2, 3), (-2, 0.5), (0, 2)),
    _of_two("remainder", "torch.remainder(x, y)", _MEDIUM, log_uniform(0.1, 10), (-3, 2), (3, -2), (4, 2)),
    _of_two("fmod", "torch.fmod(x, y)", _MEDIUM, log_uniform(0.1, 10), (-3, 2), (3, -2), (4, 2)),
    _of_two("maximum", "torch.maximum(x, y)", _MEDIUM, _MEDIUM),
    _of_two("minimum", "torch.minimum(x, y)", _MEDIUM, _MEDIUM),
    _of_two("fmax", "torch.fmax(x, y)", _MEDIUM, _MEDIUM),
    _of_two("atan2", "torch.atan2(x, y)", _ANY, _ANY),
    _of_two("hypot", "torch.hypot(x, y)", _ANY, _ANY),
    _of_two("logaddexp", "torch.logaddexp(x, y)", _WIDE, _WIDE),
    _of_two("xlogy", "torch.xlogy(x, y)", _MEDIUM, log_uniform(1e-18, 1e18, signed=False)),
    _of_two("copysign", "torch.copysign(x, y)", _MEDIUM, _MEDIUM),
    Operation("lerp", "torch.lerp(x, y, z)", "x y z", together(_MEDIUM, _MEDIUM, log_uniform(1e-3, 1.0)), True),
    Operation("addcdiv", "torch.addcdiv(x, y, z)", "x y z", together(_MEDIUM, _MEDIUM, _MEDIUM), True),
)


def _of_rows(name: str, torch: str, shape: tuple[int, ...], scale: float = 1.0, **points: list[float]) -> Operation:
    """Along the last axis; `points` are single rows."""
    return Operation(name, torch, "x", normal(shape, scale=scale), points={k: (row,) for k, row in points.items()})


_ROWS = (
    _of_rows("sum", "x.sum(-1)", (64, 1000), infinities=[np.inf, -np.inf]),
    _of_rows("mean", "x.mean(-1)", (64, 1000)),
    _of_rows("var", "x.var(-1)", (64, 1000), constant=[2.0, 2.0], single=[1.0]),
    _of_rows("std", "x.std(-1)", (64, 1000), constant=[2.0, 2.0]),
    _of_rows("norm", "torch.linalg.vector_norm(x, dim=-1)", (64, 1000), zeros=[0.0, 0.0]),
    _of_rows("norm_1", "torch.linalg.vector_norm(x, 1, dim=-1)", (64, 1000), zeros=[0.0, 1.0]),
    _of_rows("prod", "x.prod(-1)", (64, 12), zero=[0.0, 2.0, 3.0], zeros=[0.0, 0.0, 3.0]),
    _of_rows("cumsum", "x.cumsum(-1)", (16, 500)),
    _of_rows("cumprod", "x.cumprod(-1)", (16, 12), zero=[2.0, 0.0, 3.0]),
    _of_rows("logsumexp", "torch.logsumexp(x, -1)", (32, 200), 5, nothing=[-np.inf, -np.inf], infinite=[np.inf, 1.0]),
    _of_rows("logcumsumexp", "torch.logcumsumexp(x, -1)", (4, 16), nothing=[-np.inf, 0.0]),
    _of_rows("softmax", "F.softmax(x, -1)", (32, 200), 5, nothing=[-np.inf, -np.inf], infinite=[np.inf, 1.0]),
    _of_rows("log_softmax", "F.log_softmax(x, -1)", (32, 200), 5, nothing=[-np.inf, -np.inf], masked=[-np.inf, 1.0]),
    _of_rows("amax", "x.amax(-1)", (64, 200), ties=[1.0, 1.0, 0.0], nan=[np.nan, 1.0, 0.0]),
    _of_rows("max", "x.max(-1).values", (64, 200), ties=[1.0, 1.0, 0.0], nan=[np.nan, 1.0, 0.0]),
    _of_rows("median", "x.median(-1).values", (64, 100), ties=[1.0, 1.0, 0.0], nan=[np.nan, 1.0, 0.0]),
    _of_rows("sort", "x.sort(-1).values", (16, 30), ties=[1.0, 1.0, 0.0], nan=[np.nan, 1.0, 0.0]),
    _of_rows("cummax", "x.cummax(-1).values", (8, 16), ties=[1.0, 1.0, 0.0]),
    _of_rows("normalize", "F.normalize(x, dim=-1)", (64, 100), zeros=[0.0, 0.0]),
)

_ROWS_OF_TWO = {"same": ([[1.0, 2.0]], [[1.0, 2.0]]), "zeros": ([[0.0, 0.0]], [[0.0, 0.0]])}
_LOGITS = normal((64, 50), scale=3)
_BOTH = normal((64, 50), (64, 50))
_CLASS = together(_LOGITS, classes(64, 50))

_LOSSES = (
    Operation("mse_loss", "F.mse_loss(x, y)", "x y", _BOTH),
    Operation("l1_loss", "F.l1_loss(x, y)", "x y", _BOTH, points={"same": ([1.0], [1.0])}),
    Operation("smooth_l1_loss", "F.smooth_l1_loss(x, y)", "x y", _BOTH, points={"at beta": ([2.0], [1.0])}),
    Operation(
        "huber_loss", "F.huber_loss(x, y, delta=0.5)", "x y", _BOTH, points={"at delta": ([1.5], [1.0])}
    ),
    Operation(
        "cross_entropy", "F.cross_entropy(x, y)", "x y", _CLASS,
        points={
            "masked": ([[-np.inf, 1.0]], [1]), "impossible": ([[-np.inf, 1.0]], [0]), "sure": ([[0.0, 200.0]], [0])
        },
    ),
    Operation("label_smoothing", "F.cross_entropy(x, y, label_smoothing=0.1)", "x y", _CLASS),
    Operation("soft_cross_entropy", "F.cross_entropy(x, y)", "x y", together(_LOGITS, probabilities(64, 50))),
    Operation("nll_loss", "F.nll_loss(F.log_softmax(x, -1), y)", "x y", _CLASS),
    Operation(
        "kl_div", 'F.kl_div(F.log_softmax(x, -1), y, reduction="batchmean")', "x y",
        together(normal((32, 50)), probabilities(32, 50)), points={"target of 0": ([[0.0, 1.0]], [[0.0, 1.0]])},
    ),
    Operation(
        "bce", "F.binary_cross_entropy(x, y)", "x y", together(uniform((64, 50), 1e-3, 0.999), uniform((64, 50))),
        points={"0, 0": ([0.0], [0.0]), "0, 1": ([0.0], [1.0]), "1, 0": ([1.0], [0.0]), "1, 1": ([1.0], [1.0])},
    ),
    Operation(
        "bce_with_logits", "F.binary_cross_entropy_with_logits(x, y)", "x y",
        together(normal((64, 50), scale=4), uniform((64, 50))),
        points={"0": ([0.0], [1.0]), "200, 0": ([200.0], [0.0]), "inf, 1": ([np.inf], [1.0])},
    ),
    Operation("poisson_nll_loss", "F.poisson_nll_loss(x, y)", "x; y", together(normal((64, 50)), counts(64, 50))),
    Operation(
        "gaussian_nll_loss", "F.gaussian_nll_loss(x, y, z)", "x y z", together(_BOTH, uniform((64, 50), 0.1, 3.0)),
        points={"variance of 0": ([1.0], [1.0], [0.0])},
    ),
    Operation("soft_margin_loss", "F.soft_margin_loss(x, y)", "x; y", together(_LOGITS, signs(64, 50))),
    Operation(
        "hinge_embedding_loss", "F.hinge_embedding_loss(x, y)", "x; y", together(normal((64, 50)), signs(64, 50)),
        points={"at the margin": ([1.0], [-1.0])},
    ),
    Operation(
        "margin_ranking_loss", "F.margin_ranking_loss(x, y, z)", "x y; z", together(normal((640,), (640,)), signs(640)),
        points={"same": ([1.0], [1.0], [1.0])},
    ),
    Operation(
        "multi_margin_loss", "F.multi_margin_loss(x, y)", "x y", _CLASS, points={"at the margin": ([[0.0, 1.0]], [1])}
    ),
    Operation(
        "multilabel_soft_margin_loss", "F.multilabel_soft_margin_loss(x, y)", "x; y",
        together(_LOGITS, uniform((64, 50))),
    ),
    Operation(
        "cosine_embedding_loss", "F.cosine_embedding_loss(x, y, z)", "x y; z",
        together(normal((64, 20), (64, 20)), signs(64)),
        points={name: (*rows, [1.0]) for name, rows in _ROWS_OF_TWO.items()},
    ),
    Operation(
        "triplet_margin_loss", "F.triplet_margin_loss(x, y, z)", "x y z", normal((64, 20), (64, 20), (64, 20)),
        points={"same": ([[1.0, 2.0]], [[1.0, 2.0]], [[1.0, 2.0]])},
    ),
    Operation(
        "cosine_similarity", "F.cosine_similarity(x, y, -1)", "x y", normal((64, 100), (64, 100)),
        points={"zeros": _ROWS_OF_TWO["zeros"]},
    ),
    Operation(
        "pairwise_distance", "F.pairwise_distance(x, y)", "x y", normal((64, 100), (64, 100)), points=_ROWS_OF_TWO
    ),
    Operation("cdist", "torch.cdist(x, y)", "x y", normal((16, 20), (12, 20)), points=_ROWS_OF_TWO),
)  # fmt: skip

_HEADS = (2, 2, 12, 16)  # batch, heads, length, width
_IMAGES = (2, 3, 10, 10)
_LAYERS = (
    Operation("linear", "F.linear(x, w, b)", "x w b", normal((16, 64), (32, 64), (32,))),
    Operation("matmul", "x @ y", "x y", normal((4, 16, 64), (4, 64, 8))),
    Operation("conv1d", "F.conv1d(x, w, b, stride=2)", "x w b", normal((2, 4, 32), (6, 4, 5), (6,))),
    Operation("conv2d", "F.conv2d(x, w, b, padding=1)", "x w b", normal(_IMAGES, (6, 3, 3, 3), (6,))),
    Operation("conv_transpose2d", "F.conv_transpose2d(x, w, stride=2)", "x w", normal((2, 3, 6, 6), (3, 4, 3, 3))),
    Operation("avg_pool2d", "F.avg_pool2d(x, 2)", "x", normal(_IMAGES)),
    Operation(
        "max_pool2d", "F.max_pool2d(x, 2)", "x", normal(_IMAGES), points={"ties": ([[[[1.0, 1.0], [0.0, 1.0]]]],)}
    ),
    Operation("interpolate", 'F.interpolate(x, scale_factor=2, mode="bilinear")', "x", normal((2, 3, 5, 5))),
    Operation("glu", "F.glu(x)", "x", normal((32, 64), scale=3)),
    Operation(
        "layer_norm", "F.layer_norm(x, x.shape[-1:], w, b)", "x w b", normal((32, 128), (128,), (128,)),
        points={"constant": ([[2.0, 2.0]], [1.0, 1.0], [0.0, 0.0])},
    ),
    Operation(
        "rms_norm", "F.rms_norm(x, x.shape[-1:], w, eps=1e-6)", "x w", normal((32, 128), (128,)),
        points={"zeros": ([[0.0, 0.0]], [1.0, 1.0])},
    ),
    Operation(
        "batch_norm", "F.batch_norm(x, None, None, w, b, training=True)", "x w b", normal((16, 8, 12), (8,), (8,)),
        points={"constant": ([[[2.0, 2.0]]], [1.0], [0.0])},
    ),
    Operation("group_norm", "F.group_norm(x, 4, w, b)", "x w b", normal((4, 8, 25), (8,), (8,))),
    Operation("instance_norm", "F.instance_norm(x)", "x", normal((4, 3, 25))),
    Operation("local_response_norm", "F.local_response_norm(x, 3)", "x", normal(_IMAGES, scale=10)),
    Operation("attention", "F.scaled_dot_product_attention(q, k, v)", "q k v", normal(_HEADS, _HEADS, _HEADS)),
    Operation(
        "causal_attention", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "q k v",
        normal(_HEADS, _HEADS, _HEADS),
    ),
)  # fmt: skip

_FLAX = {
    "LayerNorm": ("layer_norm", "nn.LayerNorm(epsilon=1e-5)"),
    "RMSNorm": ("rms_norm", "nn.RMSNorm(epsilon=1e-6)"),
    "BatchNorm1d": ("batch_norm", "nn.BatchNorm(use_running_average=False, epsilon=1e-5)"),
    "GroupNorm": ("group_norm", "nn.GroupNorm(4, epsilon=1e-5)"),
}

OPERATIONS = {operation.name: operation for operation in (*_ELEMENTWISE, *_ROWS, *_LOSSES, *_LAYERS)}
OPERATIONS |= {name: replace(OPERATIONS[of], name=name, flax=flax) for name, (of, flax) in _FLAX.items()}


def inputs(operation: Operation, samples: int, seed: int) -> tuple[np.ndarray, ...]:
    """What the operation is fed, floats as float64."""
    return operation.draw(np.random.default_rng([seed, *operation.name.encode()]), samples)


def points(operation: Operation) -> dict[str, tuple[np.ndarray, ...]]:
    """The inputs at each of its points, whole numbers as int32."""
    found = {at: [np.asarray(value) for value in values] for at, values in operation.points.items()}
    return {at: tuple(a.astype(np.int32) if a.dtype.kind == "i" else a for a in arrays) for at, arrays in found.items()}

"""Whole training runs: norm of the gradient, and how far the weights have come, against the envelope of torch's own.

The envelope is the spread of torch runs in which nothing but roundings differed, from initial weights one unit in the
last place apart on. A port stays within ten times it. The first step outside is named, and at that step the parameter
furthest outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity import ladder, names, tolerance
from parity.ladder import Sides
from parity.measures import relative_scalar
from parity.record import Recording, tensors_of

# Fewer runs are no envelope: its edge would be chance, and nothing is decided.
RUNS = 5


@dataclass(frozen=True)
class Point:
    step: int
    torch: float
    jax: float
    drift: float
    limit: float
    decides: bool
    noise: float  # torch's own spread, as measured

    @property
    def differs(self) -> bool:
        return self.decides and not self.drift <= self.limit


@dataclass(frozen=True)
class Curve:
    """One quantity of one model, at every step that both sides took. `culprit`: the parameter furthest outside."""

    name: str
    points: tuple[Point, ...]
    culprit: str = ""

    @property
    def kind(self) -> str:
        """What the axis of a chart says."""
        return self.name.rpartition(" of ")[0]

    @property
    def first(self) -> Point | None:
        return next((point for point in self.points if point.differs), None)

    @property
    def said(self) -> str:
        point = self.first
        if point is None:
            worst = max((point.drift for point in self.points), default=0.0)
            return f"{self.name} within {worst:.1e}"
        figures = f"{point.torch:.9g} in torch, {point.jax:.9g} in JAX, relative {point.drift:.1e}"
        tail = f"; furthest outside: {self.culprit}" if self.culprit else ""
        return f"{self.name} at step {point.step}: {figures}, the limit is {point.limit:.1e}{tail}"


def curves(sides: Sides) -> tuple[Curve, ...]:
    """Of each model that both sides trained: norm of the gradient, distance of the weights."""
    found: list[Curve] = []
    for class_name, model in ladder.models(sides, sides.jax.states.get(1, {})):
        weights = names.model_weights(sides.manifest, class_name)
        if _all_gradients(sides, weights, class_name, model):
            name = f"norm of the gradient of {model}"
            points = _points(sides, f"gradient|{model}", f"gradient|{class_name}", tolerance.GRADIENT_CURVE)
            found.append(Curve(name, points))
        curve = Curve(
            f"distance of the weights of {model}",
            _points(sides, f"distance|{model}", f"distance|{class_name}", tolerance.DISTANCE_CURVE),
        )
        culprit = _culprit(sides, weights, class_name, model, curve.first.step) if curve.first else ""
        found.append(Curve(curve.name, curve.points, culprit))
    return tuple(curve for curve in found if curve.points)


def _all_gradients(sides: Sides, weights: names.ModelWeights, class_name: str, model: str) -> bool:
    """Whether JAX's gradients are known by name wherever torch has one, and torch has all: only then are the norms of
    the same thing."""
    if sides.torch.frozen_in(model, 1):
        return False
    theirs = ladder.ported_gradients(sides, weights, model, tensors_of(sides.torch.gradients.get(1, {}), model))
    ours = tensors_of(sides.jax.gradients.get(1, {}), class_name)
    return all(path in ours for path, value in theirs.items() if np.any(value))


def _points(sides: Sides, theirs: str, ours: str, floor: tolerance.Floor) -> tuple[Point, ...]:
    one, other = _values(sides.torch, theirs), _values(sides.jax, ours)
    steps = sorted(one.keys() & other.keys())
    reference = [one[step] for step in steps]
    runs = [
        [values[step] for step in steps if step in values]
        for run in sides.perturbed
        if (values := _values(run, theirs))
    ]
    figures = zip(
        steps, tolerance.curve_limits(reference, runs, floor), tolerance.spreads(reference, runs), strict=True
    )
    return tuple(
        Point(step, a, b, relative_scalar(a, b), limit.relative, limit.decides, noise)
        for step, limit, noise in figures
        for a, b in [(one[step], other[step])]
    )


def _values(recording: Recording, name: str) -> dict[int, float]:
    return {int(step): value for step, value in recording.curves.get(name, {}).items()}


def _culprit(sides: Sides, weights: names.ModelWeights, class_name: str, model: str, step: int) -> str:
    """The parameter whose distance is furthest from torch's, relative to its limit, where it is whole on both sides."""
    worst, name = 0.0, ""
    prefix = f"distance|{class_name}|"
    for key in sides.jax.curves:
        if not key.startswith(prefix):
            continue
        torch_name = names.torch_name(weights, key.removeprefix(prefix))
        points = _points(sides, f"distance|{model}|{torch_name}", key, tolerance.DISTANCE_CURVE)
        found = next((point for point in points if point.step == step), None)
        if found is not None and found.limit > 0 and found.drift / found.limit > worst:
            worst, name = found.drift / found.limit, f"{model}.{torch_name}"
    return name

"""The rungs, from a layer's output to the last loss; the comparison stops at the first that differs.

Each rung takes the recordings of torch, of its perturbed runs and of the rewrite, and answers with rows: one for each
layer, gradient, weight or step, with its drift and the limit that `tolerance` sets. A rung with nothing to compare says
so; it never counts as equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

import numpy as np

from migrate.manifest import Manifest
from parity import names, tolerance
from parity.codes import ParityError
from parity.measures import relative, relative_scalar, rms
from parity.packed import forms, whole_count
from parity.record import Recording, Tensors, tensors_of


class Verdict(StrEnum):
    EQUAL = "equal"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Row:
    """One comparison: a relative drift and its limit. `flax` is the name on the other side, where there is one."""

    name: str
    drift: float
    limit: float
    flax: str = ""
    note: str = ""
    # of an output: the torch model, its path and which call of it; and the same in Flax
    tap: tuple[str, str] | None = None

    @property
    def differs(self) -> bool:
        return not self.drift <= self.limit  # a NaN differs


@dataclass(frozen=True)
class StepRow:
    """A loss on both sides. `noise` is torch's own relative spread up to this step; undecided steps are not judged."""

    step: int
    torch: float
    jax: float
    drift: float
    noise: float
    limit: float
    decides: bool

    @property
    def finite(self) -> bool:
        return math.isfinite(self.torch) and math.isfinite(self.jax)

    @property
    def differs(self) -> bool:
        return self.decides and not self.drift <= self.limit


@dataclass(frozen=True)
class Rung:
    name: str
    verdict: Verdict
    rows: tuple[Row, ...] = ()
    code: str = ""
    first: str = ""
    note: str = ""


@dataclass(frozen=True)
class Sides:
    """The recordings that a ladder climbs on. `exact`: torch in float64, which has none of the roundings. `kinked`:
    torch with its kinks taken the other way, where slopes differ without that."""

    torch: Recording
    jax: Recording
    perturbed: tuple[Recording, ...]
    manifest: Manifest
    precision: tolerance.Precision = tolerance.FLOAT32
    notes: list[str] = field(default_factory=list)
    exact: Recording | None = None
    kinked: tuple[Recording, ...] = ()

    @property
    def reruns(self) -> tuple[Recording, ...]:
        """Torch with other roundings, or none: how far it is from itself."""
        return (*self.perturbed, *self.kinked, *([] if self.exact is None else [self.exact]))


def slopes_differ(rungs: Sequence[Rung]) -> bool:
    """Whether gradients are the first that differs: outputs and the loss agree."""
    return any(rung.code == "PAR103" for rung in rungs)


def climb(sides: Sides) -> list[Rung]:
    """Every rung in order; those above the first that differs are "not reached"."""
    rungs: list[Rung] = []
    for name, rung in RUNGS.items():
        if any(r.verdict is Verdict.DIFFERS for r in rungs):
            rungs.append(Rung(name, Verdict.NOT_REACHED))
        else:
            rungs.append(rung(name, sides))
    return rungs


# --- the rungs -------------------------------------------------------------------------------------------------------


def models(sides: Sides, recorded: Tensors) -> Iterator[tuple[str, str]]:
    """(rewritten class, torch model) for each class in the rewrite's records that only one torch model answers to."""
    for class_name in dict.fromkeys(key.partition("|")[0] for key in recorded):
        try:
            weights = names.model_weights(sides.manifest, class_name)
            model = sides.jax.matched.get(class_name) or names.torch_model(sides.torch, weights, 0)
        except ParityError:
            continue
        twins = [
            name
            for name in names.instances(sides.torch, class_name)
            if any(tensors_of(gradients, name) for gradients in sides.torch.gradients.values())
        ]
        if len(twins) > 1:
            note = f"{len(twins)} models of the class {class_name} are trained: only their losses are compared"
            if note not in sides.notes:
                sides.notes.append(note)
            continue
        yield class_name, model


def _verdict(name: str, rows: list[Row], code: str, note: str = "") -> Rung:
    if not rows:
        return Rung(name, Verdict.NOT_COMPARED, (), "PAR109", note=note)
    first = next((row for row in rows if row.differs), None)
    if first is None:
        return Rung(name, Verdict.EQUAL, tuple(rows), note=note)
    return Rung(name, Verdict.DIFFERS, tuple(rows), code, f"{first.name}: {_figures(first)}", note)


def _figures(row: Row) -> str:
    figures = f"relative drift {row.drift:.1e}, limit {row.limit:.1e}"
    return f"{figures} ({row.note})" if row.note else figures


def outputs(name: str, sides: Sides) -> Rung:
    rows: list[Row] = []
    for class_name, model in models(sides, sides.jax.outputs):
        rows += _output_rows(sides, class_name, model)
    return _verdict(name, rows, "PAR101")


def _output_rows(sides: Sides, class_name: str, model: str) -> list[Row]:
    theirs, ours = tensors_of(sides.torch.outputs, model), tensors_of(sides.jax.outputs, class_name)
    perturbed = [tensors_of(run.outputs, model) for run in sides.reruns]
    weights = names.model_weights(sides.manifest, class_name)
    flax_paths = dict.fromkeys(key.rsplit("|", 2)[0] for key in ours)
    torch_paths = dict.fromkeys(key.rsplit("|", 2)[0] for key in theirs)
    mapping = names.module_names(weights, (p for p in flax_paths if p), torch_paths) | {"": ""}
    flax_of = {torch_path: flax_path for flax_path, torch_path in mapping.items()}
    as_many = whole_count(theirs) == whole_count(ours)
    rows: list[Row] = []
    skipped: list[str] = []
    for key, value in theirs.items():
        path, occurrence, index = key.rsplit("|", 2)
        name = f"{flax_of.get(path)}|{occurrence}|{index}"
        other = ours.get(name)
        if path not in flax_of or other is None:
            skipped.append(f"{model}.{path}")
            continue
        limit = tolerance.output_limit(_spread(value, [run.get(key) for run in perturbed]), sides.precision)
        fitting = [form for form in forms(ours, name) if form.shape == value.shape]
        shown = f"output of {model}.{path}" if path else _whole(model)
        if fitting:
            drift = min(relative(value, form) for form in fitting)
            tap = (f"{model}|{path}|{occurrence}", f"{class_name}|{flax_of[path]}|{occurrence}")
            rows.append(Row(shown, drift, limit, flax_of[path], _after(skipped), tap))
            skipped = []
        elif not path and as_many:
            note = f"its shape is {value.shape} in torch and {other.shape} in JAX"
            rows.append(Row(shown, math.inf, limit, "", note))
    return _without_layout_differences(rows, model)


def whole_outputs(sides: Sides, oracle: Recording | None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What whole models returned: torch, the rewrite, and torch in float64, where all three have it."""
    for class_name, model in models(sides, sides.jax.outputs):
        theirs, ours = tensors_of(sides.torch.outputs, model), tensors_of(sides.jax.outputs, class_name)
        exact = tensors_of(oracle.outputs, model) if oracle else theirs
        for key in [key for key in theirs if key.startswith("|") and key in ours and key in exact]:
            fitting = [x for x in forms(ours, key) if x.shape == theirs[key].shape == exact[key].shape]
            if fitting:
                yield theirs[key], min(fitting, key=lambda x, y=theirs[key]: relative(y, x)), exact[key]


def _whole(model: str) -> str:
    return f"output of the model {model}"


def _after(skipped: list[str]) -> str:
    """Layers without a counterpart that ran since the last one compared: the cause may lie in them."""
    return f"after {', '.join(dict.fromkeys(skipped))}, not compared" if skipped else ""


def _without_layout_differences(rows: list[Row], model: str) -> list[Row]:
    whole = [row for row in rows if row.name == _whole(model)]
    if not whole or any(row.differs for row in whole):
        return rows
    return [row for row in rows if row in whole or not row.drift > tolerance.LAYOUT]


def loss(name: str, sides: Sides) -> Rung:
    rows = [Row("loss at step 1", s.drift, s.limit, note=_loss_note(s)) for s in step_table(sides)[:1]]
    return _verdict(name, rows, "PAR102")


def gradients(name: str, sides: Sides) -> Rung:
    return _verdict(name, _gradient_rows(sides, 1), "PAR103")


def _gradient_rows(sides: Sides, step: int) -> list[Row]:
    rows: list[Row] = []
    ours, theirs = sides.jax.gradients.get(step, {}), sides.torch.gradients.get(step, {})
    for class_name, model in models(sides, ours):
        weights = names.model_weights(sides.manifest, class_name)
        grads = tensors_of(ours, class_name)
        reference = ported_gradients(sides, weights, model, tensors_of(theirs, model))
        perturbed = [
            ported_gradients(sides, weights, model, tensors_of(run.gradients[step], model))
            for run in sides.reruns
            if step in run.gradients
        ]
        largest = max((rms(reference[path]) for path in grads if path in reference), default=0.0)
        frozen = sides.torch.frozen_in(model, step)  # JAX may take their gradients all the same: the update decides
        for path, value in grads.items():
            if names.torch_name(weights, path) in frozen:
                continue
            if path in reference and reference[path].shape == value.shape:
                label = f"gradient of {model}.{names.torch_name(weights, path)} at step {step}"
                spread = _spread(reference[path], [run.get(path) for run in perturbed])
                rows.append(_gradient_row(label, path, reference[path], value, spread, largest, sides.precision))
    return rows


def _gradient_row(
    label: str,
    path: str,
    reference: np.ndarray,
    value: np.ndarray,
    spread: float,
    largest: float,
    precision: tolerance.Precision,
) -> Row:
    size = rms(reference)
    if size == 0 and largest > 0:  # no gradient in torch: what the other side has is measured by the model's largest
        return Row(label, rms(value) / largest, tolerance.GRADIENT_ULPS * precision.negligible, path)
    return Row(label, relative(reference, value), tolerance.gradient_limit(spread, size, largest, precision), path)


def ported_gradients(sides: Sides, weights: names.ModelWeights, model: str, grads: Tensors) -> Tensors:
    """Torch's gradients in Flax layout. Parameters without a gradient count as zero, as they do in JAX."""
    state = tensors_of(sides.torch.initial, model)
    weights = names.as_tied(weights, state)
    full = {key: grads.get(key, np.zeros_like(value)) for key, value in state.items()}
    try:
        return names.ported_flat(full, weights, "params/")
    except ParityError as error:
        sides.notes.append(f"gradients of {model} could not be brought into the rewrite's layout: {error}")
        return {}


def state(name: str, sides: Sides) -> Rung:
    """The weights and buffers that each later step starts from, and then its gradients, in the order of time."""
    rows: list[Row] = []
    for step in sorted({*sides.jax.states, *sides.jax.gradients} - {1}):
        for class_name, model in models(sides, sides.jax.states.get(step, {})):
            rows += _state_rows(sides, class_name, model, step)
        if not any(row.differs for row in rows):
            rows += _gradient_rows(sides, step)
        if any(row.differs for row in rows):
            break
    first = next((row.name for row in rows if row.differs), "")
    return _verdict(name, rows, "PAR103" if first.startswith("gradient") else "PAR104")


def _state_rows(sides: Sides, class_name: str, model: str, step: int) -> Iterator[Row]:
    weights = names.model_weights(sides.manifest, class_name)
    theirs = tensors_of(sides.torch.states.get(step, {}), model)
    earlier = [s for s in sides.torch.states if s < step and tensors_of(sides.torch.states[s], model)]
    if not theirs or not earlier:
        return
    first = min(earlier)
    try:
        before = names.ported_flat(tensors_of(sides.torch.states[first], model), weights)
        after = names.ported_flat(theirs, weights)
        perturbed = [
            [names.ported_flat(tensors_of(run.states[s], model), weights) for s in (first, step)]
            for run in sides.reruns
            if first in run.states and step in run.states
        ]
    except ParityError as error:
        sides.notes.append(f"the state of {model} could not be brought into the rewrite's layout: {error}")
        return
    updates = {path: after[path].astype(np.float64) - before[path] for path in after if path.startswith("params/")}
    largest = max(map(rms, updates.values()), default=0.0)
    slopes = _gradients_before(sides, weights, model, step)
    quiet = _quiet(slopes, sides.precision)
    told = _told_signs(
        slopes, {earlier: tensors_of(sides.jax.gradients.get(earlier, {}), class_name) for earlier in slopes}
    )
    moved = any(tolerance.negligible_update(noise) > tolerance.NEGLIGIBLE_UPDATE.relative for noise in quiet.values())
    if moved:
        sides.notes.append(f"statistics of {model} follow biases that rounding moves: not compared before step {step}")
    for path, value in tensors_of(sides.jax.states[step], class_name).items():
        if path not in after or after[path].shape != value.shape or not np.issubdtype(value.dtype, np.floating):
            continue
        if moved and not path.startswith("params/"):
            continue
        update = after[path].astype(np.float64) - before[path]
        spread = _spread(update, [end[path].astype(np.float64) - start[path] for start, end in perturbed])
        limit = tolerance.update_limit(
            spread,
            rms(after[path]),
            rms(update),
            learnt=path.startswith("params/"),
            largest=largest,
            precision=sides.precision,
        )
        label = f"{model}.{names.torch_name(weights, path)} before step {step}"
        ours = value.astype(np.float64) - before[path]
        kept = told.get(path)
        drift = relative(update, ours) if kept is None else relative(update[kept], ours[kept])
        if path in quiet and largest > 0:
            off = rms(value.astype(np.float64) - after[path]) / largest
            yield Row(
                label, off, tolerance.negligible_update(quiet[path]), path, "its gradient is zero but for rounding"
            )
            continue
        if not np.any(update):  # frozen in torch: the weight itself must not have moved
            drift, limit = relative(after[path], value), sides.precision.ulp
        yield Row(label, drift, limit, path)


def _gradients_before(
    sides: Sides, weights: names.ModelWeights, model: str, step: int
) -> dict[int, Mapping[str, np.ndarray]]:
    """Torch's gradients of a model at each earlier step that has some, in Flax layout."""
    recorded = {earlier: tensors_of(found, model) for earlier, found in sides.torch.gradients.items() if earlier < step}
    return {earlier: ported_gradients(sides, weights, model, grads) for earlier, grads in recorded.items() if grads}


def _told_signs(
    slopes: Mapping[int, Mapping[str, np.ndarray]], others: Mapping[int, Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Of weights with gradients near zero, which elements have a sign that rounding does not decide: Adam's first
    updates are the learning rate times that sign, in either framework. Only where such elements are few."""
    found: dict[str, np.ndarray] = {}
    for earlier, theirs in slopes.items():
        ours = others[earlier]
        for path, reference in theirs.items():
            if path in ours and ours[path].shape == reference.shape and reference.ndim:
                off = np.abs(ours[path] - reference)
                told = (off < np.abs(reference)) | (off == 0)  # both zero: neither moves
                found[path] = told & found.get(path, True)
    few = {path: told for path, told in found.items() if told.mean() >= 1 - tolerance.UNTOLD_SIGNS}
    return {path: told for path, told in few.items() if not told.all()}


def _quiet(slopes: Mapping[int, Mapping[str, np.ndarray]], precision: tolerance.Precision) -> dict[str, float]:
    """In float64, the weights whose gradients so far are nothing but rounding, with the largest of these: an optimizer
    may make any sign of it."""
    if precision is tolerance.FLOAT32:
        return {}
    quiet: dict[str, float] | None = None
    for grads in slopes.values():
        sizes = {path: rms(value) for path, value in grads.items()}
        most = max(sizes.values(), default=0.0)
        found = {path: size for path, size in sizes.items() if 0 < size <= precision.negligible * most}
        known = found if quiet is None else quiet
        quiet = {path: max(known[path], size) for path, size in found.items() if path in known}
    return quiet or {}


def losses(name: str, sides: Sides) -> Rung:
    table = step_table(sides)
    rows = [Row(f"loss at step {s.step}", s.drift, s.limit, note=_loss_note(s)) for s in table if s.decides]
    ours, theirs = len(sides.jax.losses), len(sides.torch.losses)
    undecided = next((s.step for s in table if not s.decides), None)
    note = f"PAR107: from step {undecided} on torch differs from itself too much to judge" if undecided else ""
    rung = _verdict(name, rows, "PAR105", note)
    if rung.verdict is Verdict.EQUAL and ours != theirs and sides.jax.error is None and sides.torch.error is None:
        text = f"torch took {theirs} steps, the rewrite {ours}"
        return Rung(name, Verdict.DIFFERS, tuple(rows), "PAR106", text, note)
    return rung


def _loss_note(step: StepRow) -> str:
    return f"{step.torch:.9g} in torch, {step.jax:.9g} in JAX"


def step_table(sides: Sides) -> list[StepRow]:
    """One row for each step that both sides took."""
    runs = [run.losses for run in sides.reruns]
    limits = tolerance.loss_limits(sides.torch.losses, runs, sides.precision)
    figures = zip(limits, tolerance.spreads(sides.torch.losses, runs), strict=True)
    return [
        StepRow(step, ours, theirs, relative_scalar(ours, theirs), spread, limit.relative, limit.decides)
        for step, ours, theirs, (limit, spread) in zip(
            count(1), sides.torch.losses, sides.jax.losses, figures, strict=False
        )
    ]


RUNGS: dict[str, Callable[[str, Sides], Rung]] = {
    "outputs": outputs,
    "loss": loss,
    "gradients": gradients,
    "state after one step": state,
    "losses": losses,
}


def _spread(reference: np.ndarray, runs: Sequence[np.ndarray | None]) -> float:
    """Torch's own relative difference: the largest over its other runs."""
    same = [run for run in runs if run is not None and run.shape == reference.shape]
    return max((relative(reference, run) for run in same), default=0.0)

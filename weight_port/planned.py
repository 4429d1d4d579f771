"""A port that is checked and not yet carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from migrate.manifest import ModelWeights, Unused
from weight_port import optimizer_files, store
from weight_port.apply import check_copies, check_ties, stream_step
from weight_port.checkpoint import Checkpoint, open_checkpoint
from weight_port.dtypes import DtypeRule
from weight_port.outputs import Outputs, Window
from weight_port.plan import Plan
from weight_port.planning import plan_port, plan_unport
from weight_port.told_ties import as_kept, as_tied
from weight_port.views import Scratch


@dataclass(frozen=True)
class Planned:
    """A port that was checked and not yet carried out. ``read`` gives a source tensor, ``release`` lets it go.

    ``empty``: maps of the output without anything in them. ``plain``: numbers and texts of the output, by name.
    ``beside``: what stands beside the state dict, going back. ``checkpoint``: what is ported, going to Flax.
    """

    plan: Plan
    model: ModelWeights
    read: Callable[[str], np.ndarray]
    release: Callable[[str], None]
    notes: tuple[str, ...]
    reverse: bool
    empty: tuple[str, ...] = ()
    plain: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)

    def outputs(self, progress: Callable[[int], None] = lambda nbytes: None) -> Outputs:
        """What is to be written; ``progress`` is told of every part that was."""
        steps = {step.target: step for step in self.plan.steps}
        infos = {step.target: step.after for step in self.plan.steps}
        same_as = dict(self.plan.ties) if self.reverse else {}
        infos |= {tied: infos[same] for tied, same in same_as.items()}
        scratch = Scratch()

        def stream(name: str, window: Window | None) -> Iterator[np.ndarray]:
            step = steps[same_as.get(name, name)]
            for part in stream_step(step, self.read, window, scratch):
                yield part
                progress(part.nbytes)
            for source in step.sources:
                if source.key is not None:
                    self.release(source.key)

        return Outputs(infos, stream, same_as, self.empty, self.plain)


def plan_files(
    source: Path,
    model: ModelWeights,
    *,
    key: str | None = None,
    reverse: bool = False,
    dtype: DtypeRule | None = None,
    allow_unused: Sequence[str] = (),
    allow_missing: Sequence[str] = (),
    allow_expanded: bool = False,
    optimizer: optimizer_files.OptimizerOptions | None = None,
) -> Planned:
    """Open the source and plan its port. Raises PortError."""
    leaves = [replace(leaf, optional=leaf.optional or _any(leaf.flax, allow_missing)) for leaf in model.leaves]
    model = replace(model, leaves=tuple(leaves))
    if reverse:
        return _plan_back(source, model, dtype, allow_unused, optimizer)
    names = [leaf.torch for leaf in model.leaves] + [entry.torch for entry in model.unused]
    checkpoint = open_checkpoint(source, key=key, expected=names, allow_expanded=allow_expanded)
    unused = tuple(Unused(name, "allowed by --allow-unused") for name in checkpoint if _any(name, allow_unused))
    model = as_tied(model, checkpoint, checkpoint.read)
    plan = plan_port(replace(model, unused=model.unused + unused), checkpoint, opaque=checkpoint.opaque, dtype=dtype)
    check_ties(plan, checkpoint.read)
    notes = checkpoint.notes() + _notes_on_width(plan) + _notes_on_sums(plan)
    planned = Planned(plan, model, checkpoint.read, checkpoint.release, notes, False, checkpoint=checkpoint)
    return planned if optimizer is None else _with_state(planned, optimizer, checkpoint)


def _with_state(planned: Planned, asked: optimizer_files.OptimizerOptions, checkpoint: Checkpoint) -> Planned:
    """The plan with the optimizer's state."""
    state = optimizer_files.port_state(asked, checkpoint, planned.plan, planned.model)
    return replace(
        planned,
        plan=replace(planned.plan, steps=planned.plan.steps + state.steps),
        read=lambda key: state.sources[key] if key in state.sources else planned.read(key),
        release=lambda key: None if key in state.sources else planned.release(key),
        notes=planned.notes + state.notes,
        empty=state.empty,
    )


def _plan_back(
    source: Path,
    model: ModelWeights,
    dtype: DtypeRule | None,
    allow_unused: Sequence[str],
    optimizer: optimizer_files.OptimizerOptions | None,
) -> Planned:
    found, read = store.read(source)
    notes = _notes_on_unused(model)
    left = [name for name in found if _any(name, allow_unused)]
    state = [name for name in found if optimizer and name.startswith(f"{optimizer_files.STATE}/")]
    tensors = {name: info for name, info in found.items() if name not in {*left, *state}}
    model = as_kept(model, tensors)
    plan = plan_unport(model, tensors, dtype=dtype)
    check_copies(plan, read)
    if left:
        plan = replace(plan, dropped=tuple((name, "allowed by --allow-unused") for name in left))
    beside: dict[str, Any] = {}
    if optimizer is not None:
        arrays = {name: read(name) for name in state}
        beside["optimizer"] = optimizer_files.unport_state(optimizer, arrays, model, tensors)
    return Planned(plan, model, read, lambda name: None, notes, True, beside=beside)


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _notes_on_unused(model: ModelWeights) -> tuple[str, ...]:
    names = [entry.torch for entry in model.unused]
    if not names:
        return ()
    return (f"torch may also want {', '.join(names)}, which Flax does not hold: load_state_dict(..., strict=False)",)


def _notes_on_width(plan: Plan) -> tuple[str, ...]:
    wide = sorted({step.after.dtype.name for step in plan.steps if step.after.dtype.name in _WIDE})
    if not wide:
        return ()
    return (f"{' and '.join(wide)} are kept in the file; JAX narrows them on loading unless jax_enable_x64 is set",)


def _notes_on_sums(plan: Plan) -> tuple[str, ...]:
    summed = [step.target for step in plan.steps if step.added]
    if not summed:
        return ()
    return (f"{len(summed)} leaves are sums of two tensors ({summed[0]}); the way back gives the sum and a zero",)


_WIDE = ("float64", "int64", "uint64", "complex128")

"""A torch checkpoint as the file that the rewritten script would have saved in its place, and goes on from: weights,
the optimizer's state, schedulers, the epoch. The manifest tells what is what (`migrate.saved_files`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from migrate.manifest import Leaf, Manifest
from migrate.saved_files import MODEL, NOTHING, OPTIMIZER, PLATEAU, STEPS, UNKNOWN, Entry, SavedFile
from weight_port.dtypes import DTYPES
from weight_port.errors import PortError, fail
from weight_port.names import joined
from weight_port.optimizer_files import ALL_PARAMETERS, STATE, OptimizerOptions, port_state
from weight_port.optimizer_state import opened
from weight_port.pickles import Opaque, TensorRef
from weight_port.plan import Plan, Source, Step
from weight_port.planned import Planned, plan_files
from weight_port.planning import choose_model
from weight_port.regions import TensorInfo

# What `ReduceLROnPlateau` of a rewritten script keeps, by torch's names. Its rate is that of the optimizer.
_OF_PLATEAU = {
    "mode": "mode", "factor": "factor", "patience": "patience", "threshold": "threshold", "cooldown": "cooldown",
    "threshold_mode": "threshold_mode", "eps": "eps", "best": "best", "num_bad_epochs": "bad_epochs",
    "cooldown_counter": "waiting",
}  # fmt: skip
_NUMBERS = [(name,) for name in ("b1", "i4", "i8", "f4", "f8")]


def plan_as_saved(
    source: Path, manifest: Manifest, *, model: str | None = None, names: str | None = None, **ways: Any
) -> Planned:
    """Plan the file that a rewritten script would have saved. model: the class of models of which the manifest does not
    tell it. names: those of the optimizers' parameters, as `OptimizerOptions` has them, likewise. ways: as for
    `plan_files`. Raises PortError."""
    saved, read = opened(source)
    planned: list[Planned] = []
    errors: list[PortError] = []

    def model_of(entry: Entry) -> Planned:
        weights = choose_model(manifest.models, entry.cls or model)
        return plan_files(source, weights, key=entry.key or None, **ways)

    for entries in _fitting(manifest.saved, saved, source, model):
        try:
            models = {entry.key: model_of(entry) for entry in entries if entry.holds == MODEL}
            alone = entries[0].key == ""
            planned.append(_Whole(source, {} if alone else saved, read, models, names).of(entries))
        except PortError as error:
            errors.append(error)
    if not planned:
        raise errors[0]
    if len(planned) > 1:
        fail("WPT122", f"{source} may be any of {len(planned)} files that the script saves",
             "Choose the class of its model by --model.")  # fmt: skip
    return planned[0]


def _fitting(known: Sequence[SavedFile], saved: Any, source: Path, model: str | None) -> list[SavedFile]:
    """What the script saves that the file may be: what has its entries, else some of them, else a state dict alone.
    Raises PortError WPT122 where there is nothing."""
    if not known:
        fail("WPT122", "the manifest does not say what the script saves", "Port the weights alone: no --as-saved.")
    keys = {str(key) for key in saved} if isinstance(saved, Mapping) else set()
    named = [(entries, {entry.key for entry in entries}) for entries in known]
    found = [entries for entries, own in named if own == keys]
    some = [entries for entries, own in named if own < keys]
    found = found or ([max(some, key=len)] if some else [])
    found = found or [entries for entries in known if entries[0].key == "" and model in (None, entries[0].cls)]
    if not found:
        listed = "; or ".join(", ".join(entry.key for entry in entries) for entries in known)
        held = ", ".join(sorted(keys)) or "nothing under a name"
        fail("WPT122", f"{source} holds {held}; the script saves {listed}",
             "Port the weights alone (no --as-saved), or correct \"saved\" in the manifest.")  # fmt: skip
    return found


@dataclass
class _Whole:
    """What the file is to hold, as entry after entry is added. ``models``: by the keys of their entries; ``reads`` and
    ``releases``: what gives a source tensor, and lets it go."""

    source: Path
    saved: Any
    read: Callable[[str, TensorRef], np.ndarray]
    models: Mapping[str, Planned]
    names: str | None
    steps: list[Step] = field(default_factory=list)
    plain: dict[str, Any] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    reads: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    releases: dict[str, Callable[[], None]] = field(default_factory=dict)

    def of(self, entries: SavedFile) -> Planned:
        """The plan of these entries. Raises PortError."""
        for entry in entries:
            self.add(entry)
        known = {entry.key for entry in entries}
        self.notes += [f"{key} is left out: the script does not save it" for key in self.saved if key not in known]
        return self.planned()

    def add(self, entry: Entry) -> None:
        """Adds what one entry becomes. Raises PortError."""
        path = joined((entry.key,)) if entry.key else ""
        if entry.holds == MODEL:
            self.add_model(entry, path)
        elif entry.holds == OPTIMIZER:
            self.add_optimizer(entry, path)
        elif entry.holds == STEPS:
            self.add_value(path, self.state(entry, "last_epoch")["last_epoch"], entry.key)
        elif entry.holds == PLATEAU:
            self.add_plateau(entry, path)
        elif entry.holds == UNKNOWN:
            fail("WPT122", f"the manifest does not say what {entry.key!r} is the state of",
                 'Say so in "saved" of the manifest.')  # fmt: skip
        elif entry.holds == NOTHING:
            self.empty.append(path)
        else:
            self.add_value(path, self.saved[entry.key], entry.key)

    def add_model(self, entry: Entry, path: str) -> None:
        """A model's parameters, with its batch statistics where the script saves both."""
        planned = self.models[entry.key]
        self.notes += [note for note in planned.notes if not (path and note.startswith("taken from"))]
        self.dropped += planned.plan.dropped

        def target(name: str) -> str:
            own = name if entry.variables else name.removeprefix("params/")
            return f"{path}/{own}" if path else own

        self.take(entry.key, planned.plan.steps, target, planned.read, planned.release)

    def add_optimizer(self, entry: Entry, path: str) -> None:
        """The state of the chain that the script makes."""
        planned = self.models.get(entry.of)
        if planned is None or planned.checkpoint is None or not entry.chains:
            fail("WPT122", f"the manifest does not say which model {entry.key!r} trains, or how it is made in optax",
                 "Port the weights, and the state by --optimizer.")  # fmt: skip
        told = ALL_PARAMETERS if all(chain.whole for chain in entry.chains) else None
        options = OptimizerOptions(entry.chains, self.source, entry.key, self.names or told)
        ported = port_state(options, planned.checkpoint, planned.plan, planned.model)
        self.notes += [f"{entry.key}: {note}" for note in ported.notes]

        def target(name: str) -> str:
            return path + name.removeprefix(STATE)

        self.empty += [target(name) for name in ported.empty]
        self.take(entry.key, ported.steps, target, ported.sources.__getitem__, lambda name: None)

    def add_plateau(self, entry: Entry, path: str) -> None:
        """What follows a metric, with the rate of its optimizer."""
        state = self.state(entry, "min_lrs", *_OF_PLATEAU)
        try:
            kept = {"lr": self.saved[entry.of]["param_groups"][0]["lr"], "min_lr": state["min_lrs"][0]}
        except (LookupError, TypeError):
            fail("WPT122", f"the file does not hold the optimizer whose rate {entry.key!r} lowers")
        for name, value in {**kept, **{own: state[torch] for torch, own in _OF_PLATEAU.items()}}.items():
            self.add_value(f"{path}/{name}", value, f"{entry.key}.{name}")

    def state(self, entry: Entry, *wanted: str) -> Mapping[str, Any]:
        """The state dict of a scheduler. Raises PortError WPT122."""
        found = self.saved[entry.key]
        missing = wanted if not isinstance(found, Mapping) else [name for name in wanted if name not in found]
        if missing:
            fail("WPT122", f"{entry.key!r} is not the state of such a scheduler: it has no {missing[0]}")
        return found

    def add_value(self, path: str, value: Any, source: str) -> None:
        """Numbers, texts and tensors, in dicts and lists, which Flax keeps as dicts by number."""
        value = _scalar(value)
        if isinstance(value, TensorRef):
            self.constant(path, lambda: self.read(source, value), TensorInfo(value.shape, DTYPES[value.dtype]), source)
        elif isinstance(value, bool | int | float):
            array = np.asarray(value)
            self.constant(path, lambda: array, TensorInfo((), array.dtype), source)
            self.plain[path] = value
        elif isinstance(value, str | None):
            self.plain[path] = value
        elif isinstance(value, Mapping | list | tuple):
            items = dict(value if isinstance(value, Mapping) else enumerate(value))
            if not items:
                self.empty.append(path)
            for name, child in items.items():
                self.add_value(f"{path}/{joined((name,))}", child, f"{source}.{name}")
        else:
            what = value.origin if isinstance(value, Opaque) else type(value).__name__
            self.notes.append(f"{source} is left out: it is a {what}")

    def constant(self, path: str, read: Callable[[], np.ndarray], info: TensorInfo, source: str) -> None:
        """An array, or a number, that is as it is in torch."""
        self.reads[source] = read
        self.steps.append(Step(path, (Source(source, (), info.shape),), info, Leaf(path, source)))

    def take(
        self,
        key: str,
        steps: Sequence[Step],
        target: Callable[[str], str],
        read: Callable[[str], np.ndarray],
        release: Callable[[str], None],
    ) -> None:
        """Takes steps over, under names of the entry's own."""
        for step in steps:
            sources: list[Source] = []
            for source in step.sources:
                if source.key is not None:
                    name = f"{key}: {source.key}"
                    self.reads[name], self.releases[name] = partial(read, source.key), partial(release, source.key)
                    source = replace(source, key=name)
                sources.append(source)
            leaf = replace(step.leaf, flax=target(step.leaf.flax))
            self.steps.append(replace(step, target=target(step.target), sources=tuple(sources), leaf=leaf))

    def planned(self) -> Planned:
        """All of it."""
        first = next(iter(self.models.values()))
        classes = ", ".join(dict.fromkeys(planned.plan.model for planned in self.models.values()))
        return Planned(
            plan=Plan(classes, tuple(self.steps), tuple(self.dropped)),
            model=first.model,
            read=lambda key: self.reads[key](),
            release=lambda key: self.releases.get(key, lambda: None)(),
            notes=tuple(self.notes),
            reverse=False,
            empty=tuple(self.empty),
            plain=self.plain,
        )


def _scalar(value: Any) -> Any:
    """A number of NumPy's, which stands as an inert placeholder in what was read, as one of Python's."""
    if not isinstance(value, Opaque) or not value.origin.endswith("multiarray.scalar") or len(value.args) != 2:
        return value
    dtype, data = value.args
    if isinstance(data, Opaque) and data.origin == "_codecs.encode" and isinstance(data.args[0], str):
        data = data.args[0].encode("latin1")
    if not isinstance(data, bytes) or not isinstance(dtype, Opaque) or dtype.args[:1] not in _NUMBERS:
        return value
    numbers = np.frombuffer(data, np.dtype(dtype.args[0]))
    return numbers.item() if numbers.size == 1 else value

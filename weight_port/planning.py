"""Match a manifest with the tensors that are there: which fills which, by which moves, or why not.

Planning looks at names, shapes and types only; no tensor is read. It goes both ways: from torch keys to Flax leaves,
and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from migrate.manifest import ModelWeights
from weight_port.direction import to_flax, to_torch
from weight_port.dtypes import DtypeRule
from weight_port.errors import fail, raise_all
from weight_port.misfits import misfits, near, not_tied
from weight_port.names import Lookup, Pattern
from weight_port.pairing import pair, resolve_ties
from weight_port.plan import Plan
from weight_port.regions import TensorInfo


def plan_port(
    model: ModelWeights,
    tensors: Mapping[str, TensorInfo],
    *,
    opaque: Mapping[str, str] | None = None,
    dtype: np.dtype | DtypeRule | None = None,
) -> Plan:
    """The way from torch keys to Flax leaves. Every key is used once or dropped with a reason, every leaf filled.

    opaque: keys that cannot be read, and what stands there. dtype: the type that floating-point leaves get, or a
    function that gives it for a leaf's path (None: as it is stored).
    Raises one PortError (WPT005, WPT101 to WPT105) that lists everything that does not fit.
    """
    way = to_flax(dtype)
    sources, ties = resolve_ties(model, tensors)
    model, copying = _parted(model)
    steps, problems, unmatched, touched = pair(model, tensors, sources, way)
    copies, more, _, copied = pair(copying, tensors, sources, way)
    problems += [*more, *misfits(copying, [], copied, way, opaque or {})]
    unused = Lookup((entry.torch, entry) for entry in model.unused)
    reasons = {key: entry.reason for key in unmatched for entry, _ in unused.find(key)}
    leftover = [key for key in unmatched if key not in reasons]
    problems += misfits(model, leftover, touched, way, opaque or {})
    problems += [not_tied(key, same, tensors) for key, same in ties if tensors[key] != tensors[same]]
    raise_all(problems, f"the checkpoint does not fit the manifest's {model.name}")
    return Plan(model.name, steps + copies, tuple(reasons.items()), tuple(ties))


def plan_unport(
    model: ModelWeights, tensors: Mapping[str, TensorInfo], *, dtype: np.dtype | DtypeRule | None = None
) -> Plan:
    """The way back: from Flax leaves to torch keys. Tied keys appear again; keys that were dropped do not.

    Raises one PortError (WPT101 to WPT104, WPT107) that lists everything that does not fit.
    """
    way = to_torch(dtype)
    model, copying = _parted(model)
    names = Lookup((leaf.flax, leaf) for leaf in copying.leaves)
    repeated = {name: name for name in tensors if any(names.find(name))}
    steps, problems, unmatched, touched = pair(model, tensors, {n: n for n in tensors if n not in repeated}, way)
    copies, more, _, copied = pair(copying, tensors, repeated, way)
    problems += [*more, *misfits(copying, [], copied, way, {}), *misfits(model, unmatched, touched, way, {})]
    raise_all(problems, f"the Flax weights do not fit the manifest's {model.name}")
    same_as = Lookup((tie.same_as, tie) for tie in model.ties)
    found = [(Pattern(tie.torch).fill(ids), step.target) for step in steps for tie, ids in same_as.find(step.target)]
    return Plan(model.name, steps, (), tuple(found), copies)


def _parted(model: ModelWeights) -> tuple[ModelWeights, ModelWeights]:
    """The model without the leaves that repeat another's tensor, and with these alone."""
    own = tuple(leaf for leaf in model.leaves if not leaf.copy)
    return replace(model, leaves=own), replace(model, leaves=tuple(leaf for leaf in model.leaves if leaf.copy))


def choose_model(models: tuple[ModelWeights, ...], name: str | None) -> ModelWeights:
    """The model of that class, or the only one. Raises PortError WPT008."""
    names = [model.name for model in models]
    if name is None and len(models) == 1:
        return models[0]
    if name in names:
        return models[names.index(name)]
    listed = ", ".join(names) or "none"
    if name is None:
        fail("WPT008", f"the manifest describes {len(models)} models: {listed}", "Choose one by --model.")
    fail("WPT008", f"the manifest has no model {name!r}; it describes: {listed}", near(name, names))

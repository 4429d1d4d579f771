"""The optimizer's state beside the weights, when checkpoints are ported: from torch's, which is streamed like the
weights, to leaves ``opt_state/0/mu/...``; and back into a torch file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from migrate.manifest import Leaf, ModelWeights
from migrate.saved_files import Chain
from weight_port.apply import Read, flatten, nest
from weight_port.checkpoint import Checkpoint, open_checkpoint
from weight_port.errors import Problem, fail, raise_all
from weight_port.names import Lookup, Pattern
from weight_port.optimizer_chains import chain_of, is_unknown
from weight_port.optimizer_state import Names, named, read_optimizer_state
from weight_port.optimizer_to_optax import fill
from weight_port.optimizer_to_torch import as_tensors, to_torch
from weight_port.plan import Plan, Source, Step
from weight_port.regions import TensorInfo

STATE = "opt_state"
ALL_PARAMETERS = "model.parameters()"


@dataclass(frozen=True)
class OptimizerOptions:
    """What to do with the optimizer's state.

    chain: how the optax chain is constructed, or "auto" as torch's hyperparameters say, or what a rewritten script
    makes, one or another. source: the torch checkpoint with the optimizer, where it is not the one that is ported; on
    the way back the one whose groups are taken over. key: where in it. names: a JSON file of the parameters' names in
    the order in which torch was given them, or "model.parameters()" where it was given all. step: how many steps were
    taken, where the chain does not count them.
    """

    chain: str | Sequence[Chain]
    source: Path | None = None
    key: str | None = None
    names: str | None = None
    step: int | None = None


@dataclass(frozen=True)
class Ported:
    """Steps that write a state, where they read from, what is empty in its tree, and notes."""

    steps: tuple[Step, ...]
    sources: Mapping[str, np.ndarray]
    empty: tuple[str, ...]
    notes: tuple[str, ...]


def port_state(options: OptimizerOptions, weights: Checkpoint, plan: Plan, model: ModelWeights) -> Ported:
    """Plan the way of torch's optimizer state; ``plan`` is that of the weights. Raises PortError."""
    import jax
    from flax import serialization

    state = read_optimizer_state(options.source or _holder(weights), options.key)
    names = _names(options, model, weights)
    groups = named(state, names)
    chain = chain_of(options.chain, groups, {kind for entry in state["state"].values() for kind in entry})
    tree = _shapes({step.target: step.after for step in plan.steps})

    def initial() -> Any:
        return chain.transformation.init(jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), tree))

    filled = fill(state, model, jax.eval_shape(initial), lambda *made: _Made(made[0], made[1]), names=names,
                  schedule_step=options.step)  # fmt: skip
    found = _flat(serialization.to_state_dict(filled.state))
    untouched = [path for path, value in found.items() if isinstance(value, jax.ShapeDtypeStruct)]
    # only what torch has nothing for is computed: the compiler leaves the rest out
    values = jax.jit(lambda: [_flat(serialization.to_state_dict(initial()))[path] for path in untouched])()
    found |= {path: np.asarray(value) for path, value in zip(untouched, values, strict=True)}
    unknown = [path for path, value in found.items() if isinstance(value, np.ndarray) and is_unknown(value)]
    if unknown:
        fail("WPT122", f"{unknown[0]} of {chain.text} is a number of the script's, which the torch file does not tell",
             "State the chain by --optimizer.")  # fmt: skip
    steps: list[Step] = []
    sources: dict[str, np.ndarray] = {}
    for path, value in found.items():
        if isinstance(value, _Made):
            steps.append(_renamed(path, value, sources))
        elif value is not None:
            steps.append(_constant(path, np.asarray(value), sources))
    empty = tuple(path for path, value in found.items() if value is None)
    return Ported(tuple(steps), sources, empty, (f"the optimizer is {chain.text}", *filled.notes))


def _holder(weights: Checkpoint) -> Path:
    """The file of the weights, where it can hold an optimizer's state too. Raises PortError WPT120."""
    if "safetensors" not in weights.format and weights.format != "npz":
        return weights.path
    # as Accelerate and transformers' Trainer call it in a folder
    beside = [path for name in ("optimizer.bin", "optimizer.pt") if (path := weights.path.parent / name).is_file()]
    where = str(beside[0]) if beside else "FILE, what torch saved it to"
    fail("WPT120", f"{weights.path} holds weights alone", f"Say --optimizer-from {where}.")


def _shapes(weights: Mapping[str, TensorInfo]) -> Any:
    """The parameters as a tree of shapes."""
    import jax

    trained = {name: info for name, info in weights.items() if name.startswith("params/")}
    return nest({n: jax.ShapeDtypeStruct(info.shape, info.dtype) for n, info in trained.items()}).get("params", {})


@dataclass(frozen=True)
class _Made:
    """What stands for a tensor of the state until it is written."""

    step: Step
    read: Read


def _flat(tree: Any, path: str = STATE) -> dict[str, Any]:
    """By path; None where a map is empty, as for transformations without a state."""
    if not isinstance(tree, Mapping):
        return {path: tree}
    found: dict[str, Any] = {} if tree else {path: None}
    for name, child in tree.items():
        found |= _flat(child, f"{path}/{name}")
    return found


def _renamed(path: str, made: _Made, sources: dict[str, np.ndarray]) -> Step:
    """The step for a leaf of the state; its sources get names that no weight has."""
    kind = made.step.leaf.torch.partition(" of ")[0]
    renamed: list[Source] = []
    for source in made.step.sources:
        key = None if source.key is None else f"{kind} of {source.key}"
        if key is not None and source.key is not None:
            sources[key] = made.read(source.key)
        renamed.append(replace(source, key=key))
    weight = made.step.target.partition("/")[2]
    pattern = made.step.leaf.flax.partition("/")[2]
    leaf = replace(made.step.leaf, flax=path.removesuffix(weight) + pattern)
    return replace(made.step, target=path, sources=tuple(renamed), leaf=leaf)


def _constant(path: str, value: np.ndarray, sources: dict[str, np.ndarray]) -> Step:
    """A count or a rate: optax keeps it once."""
    sources[path] = value
    leaf = Leaf(path, "the optimizer")
    return Step(path, (Source(path, (), value.shape),), TensorInfo(value.shape, value.dtype), leaf)


def _names(options: OptimizerOptions, model: ModelWeights, weights: Checkpoint) -> Names | None:
    if options.names is None:
        return None
    if options.names == ALL_PARAMETERS:
        return _parameters(model, weights)
    try:
        found = json.loads(Path(options.names).read_text())
    except OSError as error:
        fail("WPT001", f"cannot open {options.names}: {error.strerror or error}")
    except ValueError as error:
        fail("WPT120", f"{options.names} is not JSON: {error}")
    lists = [found] if isinstance(found, list) and found and isinstance(found[0], str) else found
    texts = isinstance(lists, list) and all(isinstance(entry, list) for entry in lists)
    if not texts or not all(isinstance(name, str) for entry in lists for name in entry):
        advice = 'It looks like ["fc.weight", "fc.bias"], or has a list for each group.'
        fail("WPT120", f"{options.names} holds no names", advice)
    return found


def _parameters(model: ModelWeights, weights: Checkpoint) -> list[str]:
    """The parameters in the order of a state dict, which is that of ``model.parameters()``; what is tied counts once,
    where it stands first."""
    if not weights.format.startswith("torch.save"):
        fail("WPT120", f"{weights.path} does not keep the order of the parameters (it is {weights.format})",
             "Give the names in a file.")  # fmt: skip
    leaves = Lookup((leaf.torch, leaf) for leaf in model.leaves if leaf.flax.startswith("params/"))
    ties = Lookup((tie.torch, tie) for tie in model.ties)
    same_as = {key: Pattern(tie.same_as).fill(numbers) for key in weights for tie, numbers in ties.find(key)}
    names = (same_as.get(key, key) for key in weights)
    return [name for name in dict.fromkeys(names) if any(leaves.find(name))]


def restore_optax(template: Any, tree: Mapping[str, Any]) -> Any:
    """The state of an optax chain from a ported file: ``template`` is the chain's ``init(params)``, ``tree`` what the
    file has under ``opt_state`` (nested, or flat as safetensors keeps it). Strict both ways: raises PortError."""
    from flax import serialization

    flat = {name if name.startswith(f"{STATE}/") else f"{STATE}/{name}": value for name, value in flatten(tree).items()}
    wanted = {path: leaf for path, leaf in _flat(serialization.to_state_dict(template)).items() if leaf is not None}
    problems = [Problem("WPT102", f"nothing fills {path} of the optax state") for path in wanted if path not in flat]
    problems += [Problem("WPT101", f"the optax state has no {path}") for path in flat if path not in wanted]
    problems += [
        Problem("WPT103", f"{path} has the shape {flat[path].shape}, the optax state's {tuple(np.shape(leaf))}")
        for path, leaf in wanted.items()
        if path in flat and hasattr(leaf, "shape") and flat[path].shape != tuple(leaf.shape)
    ]
    raise_all(problems, "the state does not fit the optax chain")

    def filled(tree: Any, path: str = STATE) -> Any:
        if isinstance(tree, Mapping):
            return {name: filled(child, f"{path}/{name}") for name, child in tree.items()}
        return flat[path]

    return serialization.from_state_dict(template, filled(serialization.to_state_dict(template)))


def unport_state(
    options: OptimizerOptions, arrays: Mapping[str, np.ndarray], model: ModelWeights, weights: Mapping[str, TensorInfo]
) -> dict[str, Any]:
    """The way back: torch's state dict with tensors, from the arrays under ``opt_state/``. Raises PortError."""
    import jax

    if options.source is None:
        fail("WPT009", "the way back needs the groups of the torch optimizer",
             "Name a torch checkpoint of the run, from before or newly made, by --optimizer-from.")  # fmt: skip
    like = read_optimizer_state(options.source, options.key)
    names = None if options.names is None else _names(options, model, open_checkpoint(options.source))
    groups = named(like, names)
    chain = chain_of(options.chain, groups, {kind for entry in like["state"].values() for kind in entry})
    template = jax.eval_shape(chain.transformation.init, _shapes(weights))
    return as_tensors(to_torch(restore_optax(template, arrays), model, like, names=names, step=options.step))

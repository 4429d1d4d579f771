"""Which tensor of one side is which of the other: by the manifest, and by how Flax spells torch's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from migrate.manifest import WILDCARD, Manifest, ModelWeights
from parity.codes import ParityError
from parity.record import Recording, Tensors, tensors_of
from weight_port import PortError, port_state_dict, told_ties
from weight_port.names import Pattern


def instances(recording: Recording, class_name: str) -> list[str]:
    """The torch models of one class, as the manifest calls it, in the order of construction: "Net", "Net#1". Copies of
    models come last: the rewritten script copies their weights."""
    file, _, own = class_name.rpartition(".")
    alike = [name for name in recording.models if name.split("#")[0] == own]
    place = file or _SCRIPT
    here = [name for name in alike if _is_file(recording.modules.get(name, ""), place)]
    found = here if here or file else alike
    return sorted(found, key=lambda name: (name in recording.copies, int(name.partition("#")[2] or 0)))


def told_class(manifest: Manifest, cls: type) -> str:
    """What the manifest calls a class of the rewritten script: with its file where several files have one so called."""
    own = cls.__name__
    files = [model.name.rpartition(".")[0] for model in manifest.models if model.name.rpartition(".")[2] == own]
    found = [file for file in files if file and _is_file(cls.__module__, file)]
    return f"{max(found, key=len)}.{own}" if found else own


_SCRIPT = "__main__"


def _is_file(module: str, file: str) -> bool:
    """Whether a Python module is a file of the project, which another folder on the search path may shorten."""
    return f".{module}".endswith(f".{file}") or (module != _SCRIPT and f".{file}".endswith(f".{module}"))


def model_weights(manifest: Manifest, class_name: str) -> ModelWeights:
    for model in manifest.models:
        if model.name == class_name:
            return model
    known = ", ".join(model.name for model in manifest.models) or "none: name it with --manifest"
    raise ParityError("PAR205", f"weights.json does not describe the model {class_name} (it describes: {known})")


def torch_model(recording: Recording, weights: ModelWeights, ordinal: int, taken: Collection[str] = ()) -> str:
    """The torch model whose weights the ordinal-th rewritten model of a class gets. taken: those that others have got.

    By class name; where torch has no such class (a bare nn.Sequential), the only one whose state dict fits, or of
    several of one torch class the next in the order of construction. Of several bare ones those that fit are meant.
    """
    same = instances(recording, weights.name)
    if len(same) > 1:
        same = [name for name in same if _fits(tensors_of(recording.initial, name), weights)] or same
    if ordinal < len(same):
        return same[ordinal]
    if same:
        text = f"the rewritten script initialises {ordinal + 1} models {weights.name}, the torch run had {len(same)}"
        raise ParityError("PAR205", text)
    left = [name for name in recording.models if name not in taken]
    fitting = [name for name in left if _fits(tensors_of(recording.initial, name), weights)]
    classes = {name.split("#")[0] for name in fitting}
    if len(classes) == 1:
        return next(name for name in instances(recording, classes.pop()) if name in fitting)
    known = ", ".join(recording.models) or "none"
    raise ParityError("PAR205", f"the torch run had no model {weights.name} (it had: {known})")


def _fits(state: Tensors, weights: ModelWeights) -> bool:
    try:
        port_state_dict(state, weights)
    except PortError:
        return False
    return True


def weights_for(
    manifest: Manifest, recording: Recording, class_name: str, ordinal: int, taken: Collection[str]
) -> tuple[str, Any]:
    """The torch model that a rewritten one stands for, and its initial weights as nested variables of Flax's; "" for
    one without weights. taken: the torch models that others stand for. Raises ParityError."""
    weights = model_weights(manifest, class_name)
    if not weights.leaves:  # torch's side keeps no account of modules without weights
        return "", {}
    model = torch_model(recording, weights, ordinal, taken)
    return model, ported(tensors_of(recording.initial, model), weights)


def ported(state: Tensors, weights: ModelWeights) -> Any:
    try:
        return port_state_dict(state, weights)
    except PortError as error:
        raise ParityError("PAR212", f"{weights.name}: {error}") from None


def as_tied(weights: ModelWeights, state: Tensors) -> ModelWeights:
    """The weights with the ties that the torch model has."""
    return told_ties.as_tied(weights, state, state.__getitem__)


def ported_flat(state: Tensors, weights: ModelWeights, collection: str = "") -> Tensors:
    """A torch state dict in Flax names and layout, {"params/fc1/kernel": …}; optionally one collection alone."""
    weights = as_tied(weights, state)
    leaves = tuple(leaf for leaf in weights.leaves if leaf.flax.startswith(collection))
    patterns = [Pattern(leaf.torch) for leaf in leaves]
    kept = {key: value for key, value in state.items() if any(one.match(key) is not None for one in patterns)}
    return _flatten(ported(kept, replace(weights, leaves=leaves, unused=(), ties=())), "")


def _flatten(tree: Any, prefix: str) -> Tensors:
    if not isinstance(tree, dict):
        return {prefix: np.asarray(tree)}
    return {k: v for key, item in tree.items() for k, v in _flatten(item, f"{prefix}/{key}" if prefix else key).items()}


def torch_name(weights: ModelWeights, flax_path: str) -> str:
    """The torch key that fills a Flax leaf; the path itself where the manifest does not say."""
    for leaf in weights.leaves:
        indices = Pattern(leaf.flax).match(flax_path)
        if indices is not None:
            return Pattern(leaf.torch).fill(indices)
    return flax_path


def module_names(weights: ModelWeights, flax_paths: Iterable[str], torch_paths: Iterable[str]) -> dict[str, str]:
    """Flax module path -> torch dotted path, for the modules that have a counterpart.

    From the manifest where a module has weights ("layer1/layers_0" holds what "layer1.0" holds), else by spelling.
    """
    known = set(torch_paths)
    names: dict[str, str] = {}
    for path in flax_paths:
        for candidate in (_by_leaves(weights, path), *_by_spelling(path)):
            if candidate is not None and candidate in known:
                names[path] = candidate
                break
    return names


def _by_leaves(weights: ModelWeights, path: str) -> str | None:
    for leaf in weights.leaves:
        holder = leaf.flax.partition("/")[2].rpartition("/")[0]
        indices = Pattern(holder).match(path) if holder else None
        torch_holder = leaf.torch.rpartition(".")[0]
        if indices is not None and set(WILDCARD.findall(torch_holder)) <= indices.keys():
            return Pattern(torch_holder).fill(indices)
    return None


def _by_spelling(path: str) -> list[str]:
    """ "net/layers_3" -> "net.3"; "heads_0/key" -> "heads.0.key"; "fc_1" stays "fc_1" where torch has it."""
    plain = path.replace("/", ".")
    split = re.sub(r"_(\d+)(?=\.|$)", r".\1", plain)
    return [plain, re.sub(r"(^|\.)layers\.(?=\d+(\.|$))", r"\1", split), split]

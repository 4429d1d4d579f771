"""The weights that rewritten models start from: those of the torch run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.core import FrozenDict, freeze, unfreeze
from flax.traverse_util import flatten_dict, unflatten_dict

from migrate import manifest as manifests
from parity.codes import ParityError
from parity.names import instances, told_class, weights_for
from parity.record import Recording

_NEW = "new_"  # how fields begin that put a part in the place of another: a copy of a model that has one is that model

_CHANGING = ("training", "parent", "name")


def by_path(tree: Any) -> dict[str, Any]:
    """Nested variables as {"params/conv1/kernel": leaf}."""
    return {"/".join(path): leaf for path, leaf in flatten_dict(unfreeze(tree)).items()}


class Weights:
    """Puts the torch weights in place of those that a model was initialised with."""

    def __init__(self, manifest_path: str, torch_side: Recording) -> None:
        self.manifest = manifests.read(manifest_path)
        self.torch_side = torch_side
        self.taken: dict[str, str] = {}  # torch model -> the class of the rewritten one that it stands for
        self._made: dict[str, list[nn.Module]] = {}  # class -> its models, in order
        self._misfits: list[tuple[nn.Module, ParityError]] = []

    def initial(self, module: nn.Module, make: Callable[[], Any]) -> Any:
        """The variables that `make` initialises a model with, every leaf replaced. Raises ParityError where one is left
        over or does not fit; of a model whose parts may be replaced yet, once it is used."""
        class_name = self.told_class(module)
        ordinal = self._ordinal(module)
        model, ported = weights_for(self.manifest, self.torch_side, class_name, ordinal, self.taken)
        if model:
            self.taken.setdefault(model, class_name)
        variables = _shapes(make)
        here, there = by_path(variables), by_path(ported)
        misfit = _misfit(class_name, here, there)
        if misfit is not None:
            if not any(getattr(module, name) is None for name in _fields_for_parts(module)):
                raise misfit
            self._misfits.append((module, misfit))
            variables = make()
            here = by_path(variables)
            there = here | {leaf: one for leaf, one in there.items() if leaf in here and here[leaf].shape == one.shape}
        filled = {tuple(k.split("/")): jnp.array(there[k], here[k].dtype) for k in here}
        tree = unflatten_dict(filled)
        return freeze(tree) if isinstance(variables, FrozenDict) else tree

    def told_class(self, module: nn.Module) -> str:
        """What the manifest calls the class of a model."""
        return told_class(self.manifest, type(module))

    def check(self, module: nn.Module) -> None:
        """Raises the ParityError of a model that is used as it was made, and did not fit then."""
        for made, misfit in self._misfits:
            if _settings(module) == _settings(made):
                raise misfit

    def _ordinal(self, module: nn.Module) -> int:
        """How many models of its class come before a model. A copy with new parts is what it is a copy of, where that
        did not fit, or torch has no further model."""
        name = self.told_class(module)
        made = self._made.setdefault(name, [])
        copied = [number for number, earlier in enumerate(made) if _has_parts_of(module, earlier)]
        unfit = [number for number in copied if any(one is made[number] for one, _ in self._misfits)]
        known = unfit or (copied if len(made) >= len(instances(self.torch_side, name)) else [])
        if known:
            made[known[0]] = module
            return known[0]
        made.append(module)
        return len(made) - 1


def _has_parts_of(module: nn.Module, earlier: nn.Module) -> bool:
    """Whether a model is a copy of another one with more new parts."""
    usual: dict[str, Any] = {name: None for name in _fields_for_parts(earlier) if getattr(earlier, name) is None}
    return module != earlier and module.clone(**usual) == earlier


def _fields_for_parts(module: nn.Module) -> list[str]:
    return [field.name for field in dataclasses.fields(module) if field.name.startswith(_NEW)]


def _settings(module: nn.Module) -> tuple[type, dict[str, Any]]:
    """What a model is, whatever its mode."""
    names = [field.name for field in dataclasses.fields(module) if field.name not in _CHANGING]
    return type(module), {name: getattr(module, name) for name in names}


def _misfit(class_name: str, here: dict[str, Any], there: dict[str, Any]) -> ParityError | None:
    """Why the weights of torch's model are not those of the rewritten one; None where they are."""
    for leaf in here:
        if leaf not in there:
            return ParityError("PAR202", f"{class_name}: the manifest does not fill the leaf {leaf}")
    for leaf, value in there.items():
        if leaf not in here:
            return ParityError("PAR203", f"{class_name}: the manifest fills {leaf}, which the rewritten model lacks")
        if value.shape != here[leaf].shape:
            text = f"{class_name}: {leaf} has the shape {here[leaf].shape}, the ported weight {value.shape}"
            return ParityError("PAR204", text)
    return None


def _shapes(make: Callable[[], Any]) -> Any:
    """What variables a model is initialised with, all but their values, which others replace: a forward pass that is
    traced takes a fraction of one that is executed operation by operation. One that reads values cannot be traced."""
    try:
        return jax.eval_shape(make)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        return make()

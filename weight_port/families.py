"""Published architectures: the manifest of a family, from the data in families.toml.

A family's map needs no model: the names of its layers and their kinds say what goes where. It is used as any manifest
is, so that every key and every leaf is accounted for.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights, Tie, Unused
from weight_port import store
from weight_port.checkpoint import open_checkpoint
from weight_port.errors import fail
from weight_port.family_layouts import layout_leaves
from weight_port.names import Lookup

_DATA = Path(__file__).with_name("families.toml")


@cache
def table() -> dict[str, dict[str, Any]]:
    """Every family by name, with what it inherits."""
    raw = tomllib.loads(_DATA.read_text())
    return {name: _inherited(name, raw) for name in raw}


def _inherited(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    own = {"config": {"model_type": name}, **raw[name]}
    made: dict[str, Any] = {}
    for entry in (*(_inherited(parent, raw) for parent in own.get("like", ())), own):
        for key, value in entry.items():
            made[key] = [*made.get(key, ()), *value] if isinstance(value, list) else value
    return made


def family_of(config: Mapping[str, Any]) -> str | None:
    """The family that a config.json of transformers or diffusers names; None where it is not known."""
    said = {**config, "_class_name": str(config.get("_class_name")).removeprefix("Flax")}
    fitting = [name for name, entry in table().items() if entry["config"].items() <= said.items()]
    return max(fitting, key=lambda name: len(table()[name]["config"]), default=None)


def family_weights(
    name: str, keys: Iterable[str] = (), *, config: Mapping[str, Any] | None = None, layout: str | None = None
) -> ModelWeights:
    """The manifest of a family, for a checkpoint with these keys.

    A base model saved without its head has no prefix on its names; then the leaves have none. config: the model's
    config.json, which says whether the head is tied to the embedding. layout: another tree than that of the family's
    own Flax classes, "big_vision" or "maxtext". Raises PortError WPT008.
    """
    if name not in table():
        fail("WPT008", f"no family {name!r} is known; known are: {', '.join(table())}")
    return _Family(table()[name], name, tuple(keys), config or {}).weights(layout)


def family_manifest(
    source: str | Path,
    family: str | None = None,
    *,
    layout: str | None = None,
    reverse: bool = False,
    key: str | None = None,
) -> Manifest:
    """The manifest of a published model: of the family named, or that of the config.json beside (or in) ``source``.

    reverse: ``source`` holds Flax weights. key: which state dict, where it holds several. Raises PortError WPT008 where
    the family is not known.
    """
    source = Path(source)
    if not source.exists():
        fail("WPT001", f"cannot open {source}: there is no such file or folder")
    config = read_config(source)
    name = family or family_of(config)
    if not reverse:
        keys = list(open_checkpoint(source, key=key, allow_expanded=True))  # first, since it may be no checkpoint
    else:
        keys = [".".join(name.split("/")[1:]) for name in store.read(source)[0]]
    if name is None:
        kind = config.get("model_type") or config.get("_class_name")
        fits = [] if reverse else [family for family in table() if _fits(family, keys)]
        found = f"its config.json says {kind!r}" if kind else "no config.json is there that would say"
        fail(
            "WPT008",
            f"which model {source} holds is not known: {found}",
            "Give --manifest weights.json, draft one by --init-map FILE, or give --family, "
            + (f"whose keys these are: {' or '.join(fits)}." if fits else f"one of: {', '.join(table())}."),
        )
    return Manifest(source.name, "linen", (family_weights(name, keys, config=config, layout=layout),))


def _fits(family: str, keys: Sequence[str]) -> bool:
    """Whether a family uses every key, and the keys fill every leaf that it has to have."""
    weights = family_weights(family, keys)
    wanted = [(leaf.torch, leaf.optional) for leaf in weights.leaves]
    wanted += [(name, True) for name in (*(tie.torch for tie in weights.ties), *(one.torch for one in weights.unused))]
    known = Lookup((name, name) for name, _ in wanted)
    found = [{name for name, _ in known.find(key)} for key in keys]
    return all(found) and {name for name, optional in wanted if not optional} <= set().union(*found)


def read_config(source: Path) -> dict[str, Any]:
    """The config.json in a folder or beside a file; empty where there is none. Raises PortError WPT008."""
    path = (source if source.is_dir() else source.parent) / "config.json"
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail("WPT008", f"{path} cannot be read: {error}")
    return config if isinstance(config, dict) else {}


class _Family:
    """One family read for one checkpoint."""

    def __init__(self, entry: Mapping[str, Any], name: str, keys: tuple[str, ...], config: Mapping[str, Any]) -> None:
        self.entry, self.name, self.config = entry, name, config
        base = entry.get("base", "")
        alone = bool(keys) and not any(key.startswith(f"{base}.") for key in keys)
        self.prefix = "" if alone or not base else f"{base}."

    def weights(self, layout: str | None) -> ModelWeights:
        ties = tuple(Tie(self.torch(tied), self.torch(same)) for tied, same in self._tied().items())
        leaves = list(layout_leaves(layout, self.name, self.prefix, self.config)) if layout else self._leaves()
        taken = {tie.torch for tie in ties}
        unused = [
            Unused(self.torch(name), "a constant that the model makes anew") for name in self.entry.get("unused", [])
        ]
        counters = [f"{self.torch(name)}.num_batches_tracked" for name in self._batch_norms()]
        unused += [Unused(name, "Flax counts no batches") for name in counters]
        kept = tuple(leaf for leaf in leaves if leaf.torch not in taken)
        return ModelWeights(self.name, kept, tuple(unused), ties)

    def _leaves(self) -> list[Leaf]:
        leaves = [leaf for kind, names in self.entry.items() if kind in KINDS for leaf in self._layers(kind, names)]
        for kind, names in self.entry.get("head", {}).items():
            leaves += [replace(leaf, optional=True) for leaf in self._layers(kind, names)]
        return leaves

    def torch(self, name: str) -> str:
        """The torch name of a pattern: the base before it, numbered wildcards in it."""
        numbers = count()
        parts = (self.prefix + name[1:] if name.startswith(".") else name).split(".")
        return ".".join(f"{{{next(numbers)}}}" if part == "*" else part for part in parts)

    def _tied(self) -> dict[str, str]:
        tied = self.config.get("tie_word_embeddings", self.entry.get("tied_by_default", False))
        return self.entry.get("always_tied", {}) | (self.entry.get("tied", {}) if tied else {})

    def _batch_norms(self) -> list[str]:
        return [*self.entry.get("batch_norm", []), *self.entry.get("head", {}).get("batch_norm", [])]

    def _layers(self, kind: str, names: Iterable[str]) -> Iterable[Leaf]:
        for name in names:
            torch = self.torch(name)
            yield from KINDS[kind](torch, self._flax(torch))

    def _flax(self, torch: str) -> str:
        """The Flax path of a layer: numbers stand alone or are joined to what is before them, as the family says."""
        path = before = ""
        for part in torch.split("."):
            index = self.entry.get("joined", {}).get(before, self.entry["index"])
            joint = index if part.isdecimal() or part.startswith("{") else "/"
            path, before = path + joint + part if path else part, part
        renamed = self.entry.get("renamed", {})
        return "/".join(renamed.get(part, part) for part in path.split("/"))


def _kernel(torch: str, flax: str, axes: tuple[int, ...]) -> Leaf:
    return Leaf(f"params/{flax}/kernel", f"{torch}.weight", (Permute(axes),), (None,) * len(axes))


def _vector(torch: str, flax: str, *, optional: bool = False) -> Leaf:
    return Leaf(f"params/{flax}", torch, (), (None,), optional=optional)


def _with_bias(axes: tuple[int, ...], *, optional: bool = False) -> Callable[[str, str], list[Leaf]]:
    return lambda torch, flax: [
        _kernel(torch, flax, axes),
        _vector(f"{torch}.bias", f"{flax}/bias", optional=optional),
    ]


def _norm(torch: str, flax: str) -> list[Leaf]:
    return [_vector(f"{torch}.weight", f"{flax}/scale"), _vector(f"{torch}.bias", f"{flax}/bias")]


def _batch_norm(torch: str, flax: str) -> list[Leaf]:
    statistics = {"running_mean": "mean", "running_var": "var"}
    return _norm(torch, flax) + [
        Leaf(f"batch_stats/{flax}/{name}", f"{torch}.{key}", (), (None,)) for key, name in statistics.items()
    ]


LINEAR, CONV1, CONV2 = (1, 0), (2, 1, 0), (2, 3, 1, 0)

# What each kind of layer is made of, from its names in torch and in Flax.
KINDS: dict[str, Callable[[str, str], list[Leaf]]] = {
    "linear": _with_bias(LINEAR),
    "linear_no_bias": lambda torch, flax: [_kernel(torch, flax, LINEAR)],
    "linear_bias_optional": _with_bias(LINEAR, optional=True),
    "conv1": _with_bias(CONV1),
    "conv2": _with_bias(CONV2),
    "conv2_no_bias": lambda torch, flax: [_kernel(torch, flax, CONV2)],
    "projection": lambda torch, flax: [_kernel(torch, flax, LINEAR), *_with_bias(CONV2)(torch, flax)],
    "embedding": lambda torch, flax: [Leaf(f"params/{flax}/embedding", f"{torch}.weight", (), (None, None))],
    "norm": _norm,
    "batch_norm": _batch_norm,
    "array": lambda torch, flax: [Leaf(f"params/{flax}", torch)],
}

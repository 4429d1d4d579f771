"""What the files hold that a script saves: which entry is a model, which an optimizer, which a number of steps.

Standard library only. A part of the weight manifest: `migrate port-weights --as-saved` makes of a torch checkpoint the
file that the rewritten script would have saved in its place, and goes on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from migrate.strict_json import as_json, fields_in, flag_in, items_in, reject, text_in

MODEL, OPTIMIZER = "model", "optimizer"
STEPS, PLATEAU = "steps", "plateau"  # a scheduler: how often it was stepped, or what ReduceLROnPlateau keeps
VALUE, NOTHING = "value", "nothing"
UNKNOWN = "unknown"  # a state of something, which cannot be told
HOLDS = (MODEL, OPTIMIZER, STEPS, PLATEAU, VALUE, NOTHING, UNKNOWN)


@dataclass(frozen=True)
class Chain:
    """An optimizer's class in torch, and how the rewritten script constructs it in optax. Names of the script in that
    stand for numbers. whole: torch was given `model.parameters()`, all of them in their order."""

    torch: str
    optax: str
    whole: bool = False


@dataclass(frozen=True)
class Entry:
    """One entry of the dict that a file holds; the one entry of a file that holds no dict has the key "".

    cls: of a model. variables: its batch statistics are beside its parameters. of: the key of the model that an
    optimizer trains, or of the optimizer that a scheduler changes. chains: the optimizer, or those of which the script
    chooses one.
    """

    key: str
    holds: str
    cls: str = ""
    variables: bool = False
    of: str = ""
    chains: tuple[Chain, ...] = ()


SavedFile = tuple[Entry, ...]


def dump(saved: SavedFile) -> list[str]:
    """The lines of a file's entries, each a JSON object."""
    return [as_json(_entry_json(entry)) for entry in saved]


def _entry_json(entry: Entry) -> dict[str, Any]:
    made: dict[str, Any] = {"key": entry.key, "holds": entry.holds}
    if entry.cls:
        made["class"] = entry.cls
    if entry.variables:
        made["variables"] = True
    if entry.of:
        made["of"] = entry.of
    if entry.chains:
        made["chains"] = [_chain_json(chain) for chain in entry.chains]
    return made


def _chain_json(chain: Chain) -> dict[str, Any]:
    made: dict[str, Any] = {"torch": chain.torch, "optax": chain.optax}
    return {**made, "whole": True} if chain.whole else made


def load(data: object, where: str) -> SavedFile:
    """The entries of one file. Raises ManifestError."""
    entries = tuple(_entry(entry, place) for entry, place in items_in(data, where))
    if not entries:
        reject(where, "a file without entries")
    _each_once([entry.key for entry in entries], where)
    return entries


def _entry(data: object, where: str) -> Entry:
    fields = fields_in(data, where, required=("key", "holds"), optional=("class", "variables", "of", "chains"))
    key, holds, cls, of = (text_in(fields.get(name, ""), f"{where}.{name}") for name in ("key", "holds", "class", "of"))
    if holds not in HOLDS:
        reject(f"{where}.holds", f"expected one of {', '.join(HOLDS)}, not {holds!r}")
    variables = flag_in(fields.get("variables", False), f"{where}.variables")
    chains = items_in(fields.get("chains", []), f"{where}.chains")
    return Entry(key, holds, cls, variables, of, tuple(_chain(chain, at) for chain, at in chains))


def _chain(data: object, where: str) -> Chain:
    fields = fields_in(data, where, required=("torch", "optax"), optional=("whole",))
    torch, optax = (text_in(fields[name], f"{where}.{name}") for name in ("torch", "optax"))
    return Chain(torch, optax, flag_in(fields.get("whole", False), f"{where}.whole"))


def _each_once(keys: Sequence[str], where: str) -> None:
    for i, key in enumerate(keys):
        if key in keys[:i]:
            reject(f"{where}[{i}].key", f"a second entry {key!r}")

"""JSON read strictly: a mistake is told at its place, with what was expected there. Standard library only."""

from __future__ import annotations

import difflib
import json
import math
from typing import Any, NoReturn


class ManifestError(ValueError):
    """A manifest that cannot be used. The message names the place, what is wrong there and what was expected."""


def strings_in(data: object, where: str, names: tuple[str, ...]) -> dict[str, str]:
    """An object of texts under these names."""
    fields = fields_in(data, where, required=names)
    return {name: text_in(fields[name], f"{where}.{name}") for name in names}


def text_in(data: object, where: str) -> str:
    if not isinstance(data, str):
        reject(where, f"expected a text, not {as_json(data)}")
    return data


def flag_in(data: object, where: str) -> bool:
    if type(data) is not bool:
        reject(where, f"expected true or false, not {as_json(data)}")
    return data


def number_in(data: object, where: str) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        reject(where, f"expected a number, not {as_json(data)}")
    return float(data)


def items_in(data: object, where: str) -> list[tuple[Any, str]]:
    """The items of a list, each with its place."""
    if not isinstance(data, list):
        reject(where, f"expected a list, not {as_json(data)[:60]}")
    return [(item, f"{where}[{i}]") for i, item in enumerate(data)]


def fields_in(data: object, where: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object that has all that is required, and nothing that is not known."""
    if not isinstance(data, dict):
        reject(where, f"expected an object with {', '.join(map(repr, required))}, not {as_json(data)[:60]}")
    known = required + optional
    for name in data:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(map(repr, known))}"
            reject(where, f"unknown entry {name!r}, {meant}")
    for name in required:
        if name not in data:
            reject(where, f"{name!r} is missing")
    return data


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` of `json.loads` that refuses an entry told twice."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ManifestError(f"the entry {name!r} stands twice in one object")
    return dict(pairs)


def reject(where: str, what: str) -> NoReturn:
    raise ManifestError(f"{where}: {what}")


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

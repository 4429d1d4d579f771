"""Names with wildcards, as the manifest writes them: ``blocks.{0}.attn.weight``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from migrate.manifest import WILDCARD

Entry = TypeVar("Entry")


def joined(parts: Iterable[object]) -> str:
    """A path of the names of a tree's nodes. A slash in a name, as linen.WeightNorm's have, is written as in a JSON
    pointer.

    >>> joined(("params", "WeightNorm_0", "Dense_0/kernel/scale"))
    'params/WeightNorm_0/Dense_0~1kernel~1scale'
    """
    return "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def parts_of(path: str) -> tuple[str, ...]:
    """The inverse of `joined`."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/"))


class Pattern:
    """A name in which ``{0}``, ``{1}`` stand for list indices: decimal digits, no leading zero; and ``{n0}``, ``{n1}``
    for keys of dicts.

    >>> Pattern("blocks.{0}.heads.{n1}.weight").match("blocks.3.heads.colour.weight")
    {'0': '3', 'n1': 'colour'}
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = WILDCARD.split(text)  # the text between wildcards and their numbers, in turn
        self.fixed = len(parts) == 1
        seen: set[str] = set()
        regex = re.escape(parts[0])
        for number, rest in zip(parts[1::2], parts[2::2], strict=True):
            free = "[^./]+" if number.startswith("n") else "0|[1-9][0-9]*"
            regex += f"(?P=i{number})" if number in seen else f"(?P<i{number}>{free})"
            regex += re.escape(rest)
            seen.add(number)
        self._regex = re.compile(regex)

    def match(self, name: str) -> dict[str, str] | None:
        """The indices, or None where the name is another."""
        found = self._regex.fullmatch(name)
        return {group[1:]: digits for group, digits in found.groupdict().items()} if found else None

    def fill(self, indices: Mapping[str, str]) -> str:
        """The name with these indices."""
        return WILDCARD.sub(lambda wildcard: indices[wildcard[1]], self.text)


class Lookup(Generic[Entry]):
    """Finds the entries whose pattern matches a name; names without wildcards are found directly."""

    def __init__(self, entries: Iterable[tuple[str, Entry]]) -> None:
        self._fixed: dict[str, list[Entry]] = {}
        self._patterns: list[tuple[Pattern, Entry]] = []
        for text, entry in entries:
            pattern = Pattern(text)
            if pattern.fixed:
                self._fixed.setdefault(text, []).append(entry)
            else:
                self._patterns.append((pattern, entry))

    def find(self, name: str) -> Iterator[tuple[Entry, dict[str, str]]]:
        """Each entry that matches, with the indices."""
        for entry in self._fixed.get(name, ()):
            yield entry, {}
        for pattern, entry in self._patterns:
            indices = pattern.match(name)
            if indices is not None:
                yield entry, indices

"""Lowering is one class in many parts: two of them with a method of one name would call each other's."""

from __future__ import annotations

from collections import defaultdict

from migrate.lowering.lowering import Lowering
from migrate.lowering.parts import Parts
from migrate.lowering.scope import Scope


def test_no_two_parts_define_one_name() -> None:
    """`Parts` declares what its parts may call, and each of those is defined once."""
    owners: dict[str, list[str]] = defaultdict(list)
    for part in Lowering.__mro__:
        if part not in (Lowering, Scope, Parts, object):
            for name, value in vars(part).items():
                if callable(value) and not name.startswith("__"):
                    owners[name].append(part.__name__)
    assert {name: parts for name, parts in owners.items() if len(parts) > 1} == {}

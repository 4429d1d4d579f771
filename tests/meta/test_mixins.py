"""The passes of lowering are mixins of one object: a name that two of them define would hide one of the two."""

from __future__ import annotations

from migrate.lowering.lowering import Lowering
from migrate.lowering.parts import Parts


def test_no_two_passes_define_one_name() -> None:
    """But for `Parts`, which declares what later classes define."""
    defined: dict[str, str] = {}
    twice = []
    for cls in Lowering.__mro__:
        if cls in (Parts, object):
            continue
        for name in vars(cls):
            if name.startswith("__"):
                continue
            if name in defined:
                twice.append(f"{name}: {defined[name]} and {cls.__name__}")
            defined[name] = cls.__name__
    assert not twice

"""What did not fit, in words: keys that no leaf asks for, leaves that no key fills, and what was nearest."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from migrate.layers.moves import Move, show
from migrate.manifest import Leaf, ModelWeights
from weight_port.direction import Direction
from weight_port.errors import Problem
from weight_port.regions import TensorInfo


def identity(leaf: Leaf) -> object:
    """What tells a leaf from another, whatever is optional."""
    return leaf.flax, leaf.torch, leaf.moves, leaf.take, leaf.put


def misfits(
    model: ModelWeights, leftover: list[str], touched: set[object], way: Direction, opaque: Mapping[str, str]
) -> list[Problem]:
    """Keys that no leaf asks for, then leaves that no key fills; each with the nearest name among the others."""
    unfilled = [leaf for leaf in dict.fromkeys(model.leaves) if not leaf.optional and identity(leaf) not in touched]
    free, every = [way.source(leaf) for leaf in unfilled], [way.source(leaf) for leaf in model.leaves]
    advice = 'If nobody needs it, list it under "unused" in the manifest.'
    problems = [
        Problem("WPT101", f"nothing uses {key}", near(key, free) or near(key, every) or advice) for key in leftover
    ]
    for leaf in unfilled:
        name, what = way.source(leaf), opaque.get(way.source(leaf))
        message = f"nothing fills {way.target(leaf)}: the {way.whole} has no {name}"
        unreadable = f"{name}, which {way.target(leaf)} needs, is {what}, not a plain tensor"
        problems.append(
            Problem("WPT102", message, near(name, leftover))
            if what is None
            else Problem("WPT005", unreadable, "Save it as a plain tensor with torch.")
        )
    return problems


def undecided(
    key: str, info: TensorInfo, leaves: Mapping[tuple[str, tuple[Move, ...]], Leaf], *, fitting: bool
) -> Problem:
    listed = " or ".join(f"{target} {show(leaf.shape)}" for (target, _), leaf in leaves.items())
    if fitting:
        advice = "The rank does not decide. Write the leaves without wildcards, so that the names do."
        return Problem("WPT104", f"{key} {show(info.shape)} could fill {listed}", advice)
    return Problem("WPT103", f"{key} {show(info.shape)} has the rank of none of {listed}")


def not_tied(key: str, same: str, tensors: Mapping[str, TensorInfo]) -> Problem:
    one, other = tensors[key], tensors[same]
    return Problem(
        "WPT105",
        f"{key} {show(one.shape)} {one.dtype} is to be one tensor with {same} {show(other.shape)} {other.dtype}",
    )


def near(name: str, names: list[str]) -> str:
    """A hint with up to three names that resemble ``name``, or an empty text."""
    found = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return f"Near: {', '.join(found)}" if found else ""

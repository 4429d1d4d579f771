"""Which weights of the models of a script require no gradient: `requires_grad = False`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from migrate.known.by_round import IN_ONE_ROUND, ByRound
from migrate.known.kinds import Place

Leaves = frozenset[str]  # Flax paths of weights
_NUMBERED = re.compile(r"(layers_)?\d+")  # a layer of a sequence, which has no name of its own
_NAMED = 3  # so many parts have their names in that of all of them


@dataclass
class Frozen(ByRound):
    """What is frozen of each model.

    A model is trained in phases: what a script freezes, or frees, once it has trained is another phase, for which it
    may make optimizers anew. Where it tells as it runs what is frozen, the output does (`switching`): it keeps a set of
    names of parts (states.FROZEN), which steps are given.
    """

    phases: dict[Place, tuple[Leaves, ...]] = field(default_factory=dict)  # what requires none in each, by their end
    found_phases: dict[Place, tuple[Leaves, ...]] = field(default_factory=dict)
    perhaps: dict[Place, Leaves] = field(default_factory=dict)  # what does in some runs of a line alone
    found_perhaps: dict[Place, Leaves] = field(default_factory=dict)
    # in a branch that makes an optimizer after what it freezes: the branch, and what requires none there
    inside: dict[Place, tuple[int, Leaves]] = field(default_factory=dict, metadata=IN_ONE_ROUND)
    together: dict[Place, set[Leaves]] = field(default_factory=dict)  # see `at_once`
    found_together: dict[Place, set[Leaves]] = field(default_factory=dict)
    switching: set[Place] = field(default_factory=set)
    # the first such statement of these, by identity, and whether it runs once, where they are made
    begun: dict[Place, tuple[int, bool]] = field(default_factory=dict)
    found_begun: dict[Place, tuple[int, bool]] = field(default_factory=dict)
    # whole models that are frozen or not while the script runs, and trained by none of the steps between
    switched: dict[Place, set[bool]] = field(default_factory=dict)
    # scopes, and models of which all weights were frozen after they have trained
    finished: set[tuple[str, Place]] = field(default_factory=set, metadata=IN_ONE_ROUND)
    # scopes, and optimizers made before what they train was frozen, or freed
    outdated: set[tuple[str, Place]] = field(default_factory=set, metadata=IN_ONE_ROUND)
    # optimizers, and models -> the weights of these that they leave out, and that are not frozen
    left: dict[tuple[Place, Place], Leaves] = field(default_factory=dict)
    found_left: dict[tuple[Place, Place], Leaves] = field(default_factory=dict)
    filtered: set[Place] = field(default_factory=set)  # models of which an optimizer has what was not frozen by then
    filtered_by_now: set[Place] = field(default_factory=set, metadata=IN_ONE_ROUND)

    @property
    def somewhere(self) -> bool:
        """Whether weights of any model may require no gradient."""
        return bool(self.switching) or any(any(phases) for phases in self.phases.values())

    def any_of(self, model: Place) -> bool:
        """Whether some weights of a model may require no gradient at some time."""
        return model in self.switching or any(self.phases.get(model, ()))

    def left_by_all(self, model: Place) -> Leaves:
        """What no optimizer of a model trains, though it is not frozen."""
        each = [left for (_, root), left in self.left.items() if root == model]
        return frozenset.intersection(*each) if each else frozenset()

    def last(self, model: Place) -> Leaves:
        """What requires none in the end."""
        return self.phases.get(model, (frozenset[str](),))[-1]

    def now(self, model: Place) -> Leaves:
        """What requires none by now."""
        return self.found_phases.get(model, (frozenset[str](),))[-1]

    def at_once(self, model: Place) -> set[Leaves]:
        """What statements freeze, or free, at once."""
        return self.together.get(model) or self.found_together.get(model, set())

    def ever(self, model: Place) -> Leaves:
        """What is frozen, or freed, at some time."""
        return frozenset[str]().union(*self.at_once(model))

    def parts(self, model: Place) -> dict[str, Leaves]:
        """The parts of a model that are frozen together, whenever any weight of theirs is, by name."""
        sets = self.at_once(model)
        by_membership: dict[Leaves, set[str]] = {}
        for leaf in sorted(self.ever(model)):
            which = frozenset(str(number) for number, one in enumerate(sorted(sets, key=sorted)) if leaf in one)
            by_membership.setdefault(which, set()).add(leaf)
        found = [frozenset(leaves) for leaves in by_membership.values()]
        names = [_name(leaves) for leaves in found]
        return {
            name if names.count(name) == 1 else f"{name}_{number}": leaves
            for number, (name, leaves) in enumerate(zip(names, found, strict=True), 1)
        }


def _name(leaves: Iterable[str]) -> str:
    """A name for some weights: that of the part that they make up, or those of the parts."""
    paths = [leaf.split("/")[1:] for leaf in leaves]
    if len(paths) == 1:
        return "_".join(map(_word, paths[0]))
    shared = [keys[0] for keys in takewhile(lambda keys: len(set(keys)) == 1, zip(*paths, strict=False))]
    if shared:
        named = next((n for n, key in enumerate(reversed(shared), 1) if not _NUMBERED.fullmatch(key)), len(shared))
        return "_".join(map(_word, shared[-named:]))
    parts = sorted({path[0] for path in paths})
    return "_and_".join(dict.fromkeys(map(_word, parts))) if len(parts) <= _NAMED else "rest"


def _word(key: str) -> str:
    return key.partition("{")[0].strip("_") or "part"

"""When initial weights are given, so that what is given last counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """A statement: the class whose constructor runs it, "" in a script; the method or the function that it stands in;
    its number there, and in the blocks inside; in a script, the `model` that it fills."""

    cls: str
    method: str
    place: tuple[int, ...]
    model: str = ""

    def within(self, runs: Mapping[str, Moment]) -> Moment:
        """The same in terms of the constructor. `runs`: where each of its methods is run from."""
        moment, seen = self, {self.method}
        while moment.method in runs and runs[moment.method].method not in seen:
            run = runs[moment.method]
            seen.add(run.method)
            moment = Moment(self.cls, run.method, (*run.place, *moment.place))
        return moment

    def is_after(self, other: Moment, runs: Mapping[str, Moment]) -> bool:
        """Whether it is surely later than another statement of the same constructor or function."""
        one, two = self.within(runs), other.within(runs)
        return (one.cls, one.method, one.model) == (two.cls, two.method, two.model) and one.place > two.place

"""What torch changes in place, and JAX passes in and out: the state of a program, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.known.kinds import Place

PARAMS, BATCH_STATS, OPT_STATE, GRADS, COUNT, KEY = "params", "batch_stats", "opt_state", "grads", "count", "key"
CYCLE = "momentum"  # the schedule of the momentum beside that of the rate: a function, which nothing changes
FROZEN = "frozen"  # which parts of a model are frozen by now: a set of their names, where the script tells as it runs
MODE = "training"  # the mode of a model, for a function that is called in both
MODES = ("train", "eval")  # the methods that set it
MODE_IS_A_FIELD = "a part of a Flax module has the mode that the whole is applied in"
STATE_WORDS = {PARAMS, BATCH_STATS, OPT_STATE, GRADS, KEY}  # the variables that hold it
KEY_PLACE = Place("", "key")


@dataclass(frozen=True, order=True)
class State:
    """One piece of what torch changes in place: the `what` of the object at `place`."""

    what: str
    place: Place


THE_KEY = State(KEY, KEY_PLACE)

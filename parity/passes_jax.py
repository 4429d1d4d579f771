"""Which pass of a model the outputs that the rewritten side records are of. A loss may call a model several times, and
the values arrive in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from parity.record import Tensors

_MOST = 8  # passes of the first loss whose outputs are kept


def array_of(value: Any) -> np.ndarray:
    """A copy of numpy's, which has no bfloat16."""
    value = np.asarray(value)
    return value.astype(np.float32) if value.dtype == ml_dtypes.bfloat16 else value.copy()


class Outputs:
    """What the modules of each model returned in the first pass of the first call. They are put into `found`."""

    def __init__(self, found: Tensors) -> None:
        self.calls = 0  # that have ended
        self._found = found
        self._of_fixed: Tensors = {}
        self._order: dict[tuple[bool, str], tuple[int, int]] = {}  # output -> the call and the pass that it is of
        self._of_passes: dict[int, Tensors] = {}  # of the first call, by the number of the pass

    def note(self, fixed: bool, number: int, name: str, value: Any) -> None:
        """An output in a pass. fixed: no gradient goes to the pass."""
        kept = self._of_fixed if fixed else self._found
        before = self._order.get((fixed, name))
        if before is not None and before[0] != self.calls:
            return  # of a later call
        array = array_of(value)
        if not fixed and number <= _MOST:
            self._of_passes.setdefault(number, {})[name] = array
        if before is None or number < before[1]:
            self._order[fixed, name] = (self.calls, number)
            kept[name] = array

    def tell(self, taken: Mapping[str, str], theirs: Tensors) -> None:
        """After the script. A model may also be called for values that no gradient goes through, while torch's side
        tells what its first pass returned that the loss comes from: of several passes, the one that is nearest to that.
        taken: torch's model -> the class that stands for it; theirs: the outputs on torch's side."""
        classes = list(taken.values())
        for model, cls in taken.items():
            whole = f"{cls}||0|0"
            passes = [found for _, found in sorted(self._of_passes.items()) if whole in found]
            if f"{model}||0|0" in theirs and len(passes) > 1 and classes.count(cls) == 1:
                nearest = min(passes, key=lambda found: _apart(theirs[f"{model}||0|0"], found[whole]))
                self._found.update({name: value for name, value in nearest.items() if name.startswith(f"{cls}|")})
            elif f"{model}||0|0" not in theirs and len(self._of_passes) > 1 and classes.count(cls) == 1:
                self._tell_parts(model, cls, theirs)
        told = {name.partition("|")[0] for name in self._found}  # for models that have no other passes
        self._found.update({k: value for k, value in self._of_fixed.items() if k.partition("|")[0] not in told})

    def _tell_parts(self, model: str, cls: str, theirs: Tensors) -> None:
        """The same of a model that is used through methods of its own, each of which runs some of its modules."""
        for key, value in theirs.items():
            name, _, rest = key.partition("|")
            ours = f"{cls}|{rest.replace('.', '/')}"
            passes = [found[ours] for found in self._of_passes.values() if ours in found]
            if name == model and len(passes) > 1:
                self._found[ours] = min(passes, key=lambda found, value=value: _apart(value, found))


def _apart(theirs: np.ndarray, ours: np.ndarray) -> float:
    """How far the values of two arrays are from one another, in whatever order their axes are."""
    if theirs.size != ours.size or not np.isfinite(ours).all():
        return np.inf
    differences = np.abs(np.sort(theirs, axis=None) - np.sort(ours, axis=None))
    return float(differences.max(initial=0.0))

"""The first layer whose output differs: whether it is the origin, and down to which operation.

Torch runs once more and keeps the inputs of that layer; the rewrite runs once more and is given them there. What still
differs then was made in the layer; what no longer does came in with its inputs. In the layer, every value that an
operation of torch computed is looked for among those of the jaxpr.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from parity.measures import relative
from parity.packed import layouts
from parity.record import Recording


@dataclass(frozen=True)
class Origin:
    """Relative differences at the first layer that differs.

    `inherited`: of its inputs; `local`: of its output when it is given torch's inputs; both against `limit`.
    `untapped`: of the losses of a run in which nothing but losses was recorded.
    """

    layer: str
    inherited: float
    local: float
    limit: float
    untapped: float
    narrowed: str = ""
    before: str = ""  # the last layer that agreed

    @property
    def here(self) -> bool:
        return not self.local <= self.limit

    def __str__(self) -> str:
        if self.here:
            said = f"it originates in {self.layer}: given torch's inputs, its output still differs by {self.local:.1e}"
        else:
            said = f"it came into {self.layer} with its inputs, which differ by {self.inherited:.1e}: given torch's, "
            said += f"its output agrees within {self.local:.1e}"
            said += f"; the origin lies between {self.before} and {self.layer}" if self.before else ""
        said += f"; {self.narrowed}" if self.narrowed else ""
        taps = "changed nothing" if self.untapped == 0 else f"moved the losses by {self.untapped:.1e}"
        return f"{said}; recording {taps}"


def origin(
    layer: str,
    tap: tuple[str, str],
    theirs: Recording,
    ours: Recording,
    limit: float,
    untapped: float,
    before: str = "",
) -> Origin:
    """From the two runs in which the layer was probed."""
    inherited = max((_apart(value, ours.inputs.get(key)) for key, value in theirs.inputs.items()), default=0.0)
    local = _apart(theirs.outputs[f"{tap[0]}|0"], ours.outputs.get(f"{tap[1]}|0"))
    return Origin(layer, inherited, local, limit, untapped, narrowed(theirs.operations, ours.operations, limit), before)


def around(tap: tuple[str, str]) -> tuple[str, str]:
    """The block that holds a layer, in its first call; the whole model holds itself."""
    (model, path, _), (class_name, flax_path, _) = (side.split("|") for side in tap)
    return f"{model}|{path.rpartition('.')[0]}|0", f"{class_name}|{flax_path.rpartition('/')[0]}|0"


def _apart(value: np.ndarray, other: np.ndarray | None) -> float:
    if other is None:
        return float("nan")
    fitting = [layout for layout in layouts(other) if layout.shape == value.shape]
    return min((relative(value, layout) for layout in fitting), default=float("inf"))


def narrowed(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray], limit: float) -> str:
    """The first operation of torch with a result that JAX does not compute, in any order of its entries, and the
    primitives of JAX from the last common result on."""
    if not ours:
        return ""
    values = [(name, _sorted(value)) for name, value in ours.items()]
    last = -1
    computed = [name for name in theirs if name.partition("|")[0] not in _MOVES]
    for _, group in groupby(computed, lambda name: name.rpartition(".")[0]):
        names = list(group)
        found = [_first(_sorted(theirs[name]), values, limit) for name in names]
        last = max([last, *(i for i in found if i is not None)])
        if None in found:
            after = [key for key, _ in values[last + 1 :] if key.partition("|")[0] not in _MOVES]
            since = f"after {_shown(values[last][0])} " if last >= 0 else ""
            return f"torch's {_shown(names[0])} has no equal in JAX, which {since}computes {_listed(after)}"
    return ""


def _first(wanted: np.ndarray, values: list[tuple[str, np.ndarray]], limit: float) -> int | None:
    same = (i for i, (_, v) in enumerate(values) if v.size == wanted.size and relative(wanted, v) <= limit)
    return next(same, None)


# Operations that move values and compute none: of weights and indices too, which the other side may hold otherwise.
_MOVES = {
    "broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "concatenate", "copy", "convert_element_type",
    "t", "view", "_unsafe_view", "detach", "permute", "expand", "clone", "unsqueeze", "select", "alias", "_to_copy",
    "cat", "split", "unbind", "unfold", "repeat", "flip", "roll",
}  # fmt: skip
SHOWN = 8  # primitives that a message lists


def _listed(names: list[str]) -> str:
    kept = list(dict.fromkeys(map(_shown, names)))
    return ", ".join(kept[:SHOWN]) + (" …" if len(kept) > SHOWN else "")


def _shown(name: str) -> str:
    operation, line, _ = name.split("|")
    return f"{operation} ({line})" if line else operation


def _sorted(value: Any) -> np.ndarray:
    return np.sort(np.asarray(value, np.float64), axis=None)

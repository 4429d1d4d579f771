"""Primitives that look at windows of an array: pooling, and the gradient of pooling by the largest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from parity.oracle.contractions import positions
from parity.oracle.numbers import Numbers, Unknown, Value


def reduced(name: str, empty: float) -> Callable[..., Value]:
    """A window of nothing but padding gives `empty`."""

    def run(numbers: Numbers, params: Any, value: Value) -> Value:
        function, flat = numbers.functions[name], value.reshape(-1)
        shape, windows = _windows(params, value.shape)
        made = np.empty(prod(shape), object)
        for place, window in enumerate(windows):
            found = numbers.number(empty) if not window.size else None
            for element in flat[window]:
                found = element if found is None else function(found, element)
            made[place] = found
        return made.reshape(shape)

    return run


def select_and_scatter_add(numbers: Numbers, params: Any, source: Value, operand: Value) -> Value:
    """Each element of `source` goes to the place of its window in `operand` that is chosen: the first of equals."""
    better = _BETTER.get(str(params["select_prim"]))
    if better is None:
        raise Unknown(f"select_and_scatter_add by {params['select_prim']} is not known to the interpreter")
    made, flat = numbers.array(np.zeros(operand.size)), operand.reshape(-1)
    _, windows = _windows(params, operand.shape)
    for gradient, window in zip(source.reshape(-1), windows, strict=True):
        if not window.size:
            continue
        best = window[0]
        for candidate in window[1:]:
            best = candidate if better(numbers, flat[candidate], flat[best]) else best
        made[best] = made[best] + gradient
    return made.reshape(operand.shape)


_BETTER: dict[str, Callable[[Numbers, Any, Any], bool]] = {
    "ge": lambda numbers, new, old: numbers.less(old, new),
    "le": lambda numbers, new, old: numbers.less(new, old),
}


def _windows(params: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Iterator[np.ndarray]]:
    """The shape of the places, and for each of them the flat indices of what its window holds, padding left out."""
    ones = (1,) * len(shape)
    taken = [
        positions(*figures)
        for figures in zip(
            shape, params["window_dimensions"], params["window_strides"], params["padding"],
            params.get("base_dilation", ones), params.get("window_dilation", ones), strict=True,
        )
    ]  # fmt: skip
    places = tuple(len(rows) for rows in taken)

    def windows() -> Iterator[np.ndarray]:
        for place in np.ndindex(places):
            inside = [rows[at][rows[at] < length] for rows, at, length in zip(taken, place, shape, strict=True)]
            yield np.ravel_multi_index(np.ix_(*inside), shape).reshape(-1)

    return places, windows()

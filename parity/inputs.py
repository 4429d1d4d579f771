"""The inputs of a model, stated in a line: `float32[2, 3, 32, 32], int64[2, 16] < 100`, or `mask=bool[2, 16]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from parity.codes import ParityError

_ONE = re.compile(
    r"\s*(?:(?P<name>\w+)\s*=\s*)?(?P<dtype>[a-z]+\d*)\s*\[(?P<shape>[\d\s,]*)\]\s*(?:<\s*(?P<high>\d+))?\s*"
)
_SHORT = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "float": "float32", "int": "int64"}


@dataclass(frozen=True)
class Input:
    """One array: floats are standard normal, integers lie in [0, high). `name` passes it by keyword."""

    dtype: str
    shape: tuple[int, ...]
    high: int = 2
    name: str = ""

    def array(self, random: np.random.RandomState) -> np.ndarray:
        if self.dtype == "bool":
            return random.randint(0, 2, self.shape) > 0
        if self.dtype.startswith("int"):
            return random.randint(0, self.high, self.shape).astype(self.dtype)
        return random.standard_normal(self.shape).astype(np.float32).astype(self.dtype)


def parse(text: str) -> list[Input]:
    """Raises ParityError PAR211 where the text is not a list of inputs.

    >>> parse("float32[2, 3], ids=int64[4] < 10")
    [Input(dtype='float32', shape=(2, 3), high=2, name=''), Input(dtype='int64', shape=(4,), high=10, name='ids')]
    """
    inputs, position = [], 0
    while position < len(text):
        match = _ONE.match(text, position)
        dtype = _SHORT.get(match["dtype"], match["dtype"]) if match else ""
        if match is None or dtype not in ("float32", "float64", "int32", "int64", "bool"):
            raise ParityError(
                "PAR211",
                f"--inputs: cannot read {text[position:]!r}; an input looks like float32[2, 3] or int64[2] < 10",
            )
        shape = tuple(int(n) for n in match["shape"].split(",") if n.strip())
        inputs.append(Input(dtype, shape, int(match["high"] or 2), match["name"] or ""))
        position = match.end()
        if position < len(text):
            if text[position] not in ",;":
                raise ParityError("PAR211", f"--inputs: cannot read {text[position:]!r}")
            position += 1
    return inputs


def arrays(inputs: list[Input], seed: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Positional and keyword arguments of a call."""
    random = np.random.RandomState(seed)
    made = [(one.name, one.array(random)) for one in inputs]
    return [a for name, a in made if not name], {name: a for name, a in made if name}

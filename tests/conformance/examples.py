"""The `>>>` examples of the rules' docstrings: what is written, what it becomes, and what goes into it.

An input is named in the example's comment, `x: f32[2, 3]; y: idx4[5]`:

    f32     normal, times the scale               pos     positive, from 0.1 up
    const   as pos, but without a gradient        above   from 1.1 up
    unit    between 0 and 1                       i32     integers from -5 to 5, none of them 0
    idx7    integers from 0 to 6                  bool    true and false
    sorted  increasing along the last axis        array   a numpy array, float32 or float64, instead of a tensor
    spread  normal, no two closer than 0.05 (for what jumps or bends where values meet)

A float input gets a gradient. `on the host` after the inputs puts the example outside of jit. `key` in the expected
text stands for a random key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from migrate.rules.catalogue import RULES
from migrate.rules.rule import Rule

_SPEC = re.compile(r"^(?P<name>\w+): (?P<type>[a-z]+)(?P<number>\d*)\[(?P<shape>[\d, ]*)\]$")
_TYPES = {"f": "f32", "i": "i32", "pos": "pos", "unit": "unit", "idx": "idx", "bool": "bool"}
DIFFERENTIABLE = ("f32", "pos", "above", "unit", "sorted", "spread")


@dataclass(frozen=True)
class Input:
    name: str
    type: str
    shape: tuple[int, ...]
    high: int = 0

    def draw(self, random: np.random.Generator, scale: float, dtype: str) -> np.ndarray:
        """Values of this input; floats of `dtype`."""
        if self.type == "bool":
            return random.random(self.shape) < 0.5
        if self.type == "idx":
            return random.integers(0, self.high, self.shape)
        if self.type == "i32":
            return random.integers(1, 6, self.shape).astype(np.int32) * random.choice(np.int32([-1, 1]), self.shape)
        normal = random.standard_normal(self.shape) * scale
        values = {
            "f32": lambda: normal,
            "array": lambda: normal,
            "pos": lambda: np.abs(normal) + 0.1,
            "above": lambda: np.abs(normal) + 1.1,
            "const": lambda: np.abs(normal) + 0.1,
            "unit": lambda: 1 / (1 + np.exp(-normal)) * 0.98 + 0.01,
            "sorted": lambda: np.sort(normal, axis=-1),
            "spread": lambda: (random.permutation(normal.size).reshape(self.shape) - normal.size / 2.1) * 0.37 * scale,
        }[self.type]()
        return np.asarray(values, dtype)


@dataclass(frozen=True)
class Example:
    """`text` as written for torch, `expected` in JAX; "?" expects nothing certain of the text."""

    rule: str
    text: str
    expected: str
    inputs: tuple[Input, ...] = ()
    on_host: bool = False
    rule_names: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def draws(self) -> bool:
        return bool(re.search(r"\bkey\b", self.expected))

    def source(self) -> str:
        """The example as the forward method of a module; on the host, of a class that is none."""
        names = "".join(f", {given.name}" for given in self.inputs)
        graphs = "import torch_geometric.nn\n" if "torch_geometric" in self.text else ""
        header = f"import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n{graphs}\n\n"
        if self.on_host:
            typed = ", ".join(f"{given.name}: torch.Tensor" for given in self.inputs)
            return f"{header}def f({typed}):\n    return {self.text}\n"
        return f"{header}class M(nn.Module):\n    def forward(self{names}):\n        return {self.text}\n"

    def values(self, scale: float, dtype: str) -> dict[str, np.ndarray]:
        random = np.random.default_rng([sum(map(ord, self.text)), int(scale * 100)])
        return {given.name: given.draw(random, scale, dtype) for given in self.inputs}

    def differentiable(self) -> list[str]:
        return [given.name for given in self.inputs if given.type in DIFFERENTIABLE]


def parse_input(text: str) -> Input:
    """`x: idx4[5]`. Raises ValueError for anything else."""
    found = _SPEC.match(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()!r} does not describe an input such as 'x: f32[2, 3]'")
    kind, number = found["type"], found["number"]
    high = 0
    if kind == "idx":
        high = int(number)
    else:
        kind += number
    if kind not in (*DIFFERENTIABLE, "const", "i32", "idx", "bool", "array"):
        raise ValueError(f"{text.strip()!r}: no such type of input")
    return Input(found["name"], kind, tuple(int(n) for n in found["shape"].split(",") if n.strip()), high)


def parse(doc: str, rule: str = "", names: tuple[str, ...] = ()) -> Iterator[Example]:
    """The examples of a docstring."""
    lines = [line.strip() for line in doc.splitlines()]
    for number, line in enumerate(lines):
        if not line.startswith(">>> "):
            continue
        text, _, comment = line[4:].partition("  # ")
        parts = [part.strip() for part in comment.split(";") if part.strip()]
        inputs = tuple(parse_input(part) for part in parts if part != "on the host")
        expected = lines[number + 1] if number + 1 < len(lines) else ""
        yield Example(rule, text, expected, inputs, "on the host" in parts, names)


def of(rule: Rule) -> list[Example]:
    return list(parse(rule.doc, f"{rule.family}.{rule.names[0]}", rule.names))


def rules() -> list[Rule]:
    """Every rule once."""
    return list({id(rule): rule for rule in RULES.values()}.values())


def all_examples() -> list[Example]:
    return [example for rule in rules() for example in of(rule)]

"""Tensors in places of the syntax that are easily overlooked: what is asked of them there is converted as elsewhere."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

PLACES = [
    "class Batch:\n    def __init__(self, src):\n        self.src = src\n\n\n"
    "def batches():\n    yield Batch(x)\n\n\nfor i, batch in enumerate(batches()):\n    print(batch.src.std())",
    'print(f"a {x.std()} " f"of {x.size(0)}")',
    'print(f"{x.size(0):{x.size(1)}}")',
    "stack = [x, x]\nprint(stack.pop().std())",
    'table = {"x": x}\nprint(table.get("x").std(), table.pop("x").std())',
    "d = {2: 0}\ndel d[x.size(0)]",
    "match x.size(0):\n    case 2 if x.std() > 0:\n        print(x)",
    "async def f(t):\n    return t.std()\n\n\nasync def g(t):\n    return await f(t)\n\n\nprint(g(x))",
    "def f(*ts):\n    return [t.std() for t in ts]\n\n\nprint(f(x, x))",
    "class Stats:\n    @classmethod\n    def of(cls, t):\n        return t.std()\n\n\nprint(Stats.of(x))",
]


@pytest.mark.parametrize("place", PLACES)
def test_methods_of_torch_are_converted(place: str) -> None:
    made = convert(parse("a.py", f"import torch\n\nx = torch.ones(2, 3)\n{place}\n"))
    assert "std()" not in made.text and "size(" not in made.text, made.text

"""Expressions over several lines, of which the parentheses go with the call that they belonged to."""

from __future__ import annotations

import ast

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = "import torch\nfrom torch.autograd import Variable\nx = torch.ones(3)\n"


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("y = Variable(x\n+ 1)\n", "y = x + 1"),  # without parentheses two statements, and no error
        ("if x.sum() > 1 and Variable(x.mean() +\n    x.max()) > 2:\n    pass\n", None),
        ("def f(x):\n    return Variable(x\n        .mean())\n", "def f(x):\n    return jnp.asarray(x.mean())"),
        ("torch._assert(len(x) == 3, 'a'\n    'b'\n    'c')\n", "assert len(x) == 3, 'abc'"),
        ("z = [Variable(x +\n    1)]\n", "z = [x + 1]"),
        ("for i in Variable(x\n- 1):\n    print(i)\n", "for i in x - 1:\n    print(i)"),
    ],
)
def test_lines_that_end_inside_an_expression_stay_together(source: str, same: str | None) -> None:
    text = convert(parse("a.py", HEAD + source)).text
    body = ast.unparse(ast.parse(text).body[2:])  # type: ignore[arg-type]
    assert same is None or body == same

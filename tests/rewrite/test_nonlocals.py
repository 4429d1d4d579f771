"""`nonlocal` statements in the output name what a function around them binds: else Python does not compile it."""

from __future__ import annotations

import libcst as cst
import pytest

from migrate.syntax.nonlocals import with_names_outside
from tests.conformance import rewritten

SCRIPT = """from accelerate import Accelerator
import torch


def main():
    accelerator = Accelerator(ARGUMENTS)
    steps = 0

    def inner():
        nonlocal NAMES
        accelerator.wait_for_everyone()
        steps += 1
        return torch.ones(steps)

    print(inner())


main()
"""


@pytest.mark.parametrize("names", ["accelerator, steps", "steps, accelerator", "steps"])
@pytest.mark.parametrize("arguments", ["cpu=len(str(1)) > 0", "mixed_precision=input()"])
def test_what_is_gone_is_not_named(names: str, arguments: str) -> None:
    made = rewritten.conversion(SCRIPT.replace("NAMES", names).replace("ARGUMENTS", arguments))
    assert "        nonlocal steps\n" in made.text
    assert [found.code for found in made.report.diagnostics] == ["MIG302"] * ("mixed" in arguments)


def test_a_body_that_is_nothing_else() -> None:
    text = "def f(a):\n    def g():\n        nonlocal b\n\n    def h():\n        nonlocal a, b\n        a = 1\n"
    (made,) = with_names_outside([cst.ensure_type(cst.parse_module(text).body[0], cst.FunctionDef)])
    wanted = "def f(a):\n    def g():\n        pass\n\n    def h():\n        nonlocal a\n        a = 1\n"
    assert cst.Module([made]).code == wanted

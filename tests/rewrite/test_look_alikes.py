"""Code that sounds like torch and is not: numpy, pandas, scikit-learn, TensorFlow, the user's own names."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from migrate.files.source import load, parse
from migrate.pipeline import convert

FILES = sorted(Path(__file__).parents[1].glob("look_alikes/*.py"))


def test_there_are_several_hundred_lines() -> None:
    assert len(FILES) >= 8
    assert sum(len(path.read_bytes().splitlines()) for path in FILES) > 400


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_left_byte_for_byte(path: Path) -> None:
    source = load(path)
    made = convert(source)
    assert made.report.exit_code == 0, made.report.as_text()
    assert not made.changed(source)
    assert made.text.encode() == path.read_bytes()


# Where nothing is torch but its own lines: not those that call `nn` or `torch` something else.
BESIDE = [path for path in FILES if path.stem not in ("lamp", "words", "already_jax", "own_framework")]


@pytest.mark.parametrize("path", BESIDE, ids=lambda path: path.stem)
def test_only_what_is_torch_is_changed(path: Path) -> None:
    """The same code with a use of real torch below it: nothing else differs."""
    before = path.read_text(encoding="utf-8")
    after = convert(parse("x.py", f"{before}import torch\nprint(torch.ones(3).clamp(0, 2))\n")).text
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    assert [line for line in lines if line.startswith("- ")] == []
    new = [line[2:] for line in lines if line.startswith("+ ") and line[2:].strip()]
    assert [line for line in new if not line.startswith("import jax")] == ["print(jnp.clip(jnp.ones(3), 0, 2))"]


ONE_LINE = """import torch
def f(x): return x.clamp(0, 1)
for i in range(3): y = torch.ones(3); y = f(y) * i
if y.sum() > 1: print(y.shape); y = y.unsqueeze(0)
"""


def test_statements_on_the_line_of_their_head_are_not_lost() -> None:
    text = convert(parse("x.py", ONE_LINE)).text
    assert "    return jnp.clip(x, 0, 1)" in text
    assert "    y = jnp.ones(3)\n    y = f(y) * i\n" in text
    assert "    print(y.shape)\n    y = y[None]\n" in text or "    y = jnp.expand_dims(y, 0)\n" in text

"""Loops over parameters, which Flax has in another order than torch."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = "import torch\nimport torch.nn as nn\n\nmodel = nn.Linear(3, 2)\nprint(model(torch.ones(1, 3)))\nkept = {}\n"


def codes(start: str, *turn: str, over: str = "name, p in model.named_parameters()") -> list[str]:
    body = "".join(f"    {line}\n" for line in turn)
    found = convert(parse("x.py", f"{HEAD}{start}\nfor {over}:\n{body}")).report.diagnostics
    return [one.code for one in found]


@pytest.mark.parametrize(
    ("start", "turn"),
    [
        ("n = 0", ("n += 1", "kept[name] = p / (n + 1)")),
        ("rate = 1.0", ("kept[name] = rate * p", "rate = rate * 0.5")),
        ("last = 0.0", ("kept[name] = p + last", "last = p.mean()")),
    ],
)
def test_what_depends_on_the_order_is_refused(start: str, turn: tuple[str, ...]) -> None:
    assert codes(start, *turn) == ["MIG401"]


@pytest.mark.parametrize(
    ("start", "turn"),
    [
        ("n = 0", ("n += p.numel()", "print(n, name)")),
        ("total = 0.0", ("total = p.norm() ** 2 + total",)),
        ("best = 0.0", ("best = max(best, p.abs().max())",)),
        ("", ("name = name.replace('.', '/')", "kept[name] = p")),
        ("best = 0.0", ("if p.abs().max() > best:", "    best = p.abs().max()")),
        ("flat, n = torch.ones(8), 0", ("kept[name] = flat[n : n + p.numel()]", "n += p.numel()")),
    ],
)
def test_what_is_the_same_in_any_order_stays(start: str, turn: tuple[str, ...]) -> None:
    assert not codes(start, *turn)

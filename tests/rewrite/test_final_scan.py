"""The last look at an output: a name of torch's that is left, or one that nothing binds, is an error at its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrate import checks, nodes
from migrate.diagnostics import Severity
from migrate.pipeline import convert
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Call
from migrate.source import parse

SOURCE = """import torch

limit = 3
x = torch.ones(3)
if limit > 2:
    print(torch.square(x), limit)
"""


LEFT = pytest.mark.xfail(strict=True, reason="where torch stays for the data, its import stays for the whole file")


@pytest.mark.parametrize("left", ["lost({input})", pytest.param("torch.square({input})", marks=LEFT)])
def test_a_rule_that_leaves_a_name_is_noticed(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded mistake: a rule whose result names what the output does not have."""

    def wrong(call: Call) -> nodes.Expr:
        return call.make(left)

    monkeypatch.setitem(RULES, "torch.square", replace(RULES["torch.square"], function=wrong))
    report = convert(parse("x.py", SOURCE)).report
    (found,) = report.diagnostics
    assert found.code == "MIG305" and found.severity is Severity.ERROR and report.exit_code == 1


def test_the_place_is_that_of_the_line() -> None:
    after = SOURCE.replace("import torch\n", "")
    (found,) = checks.undefined("x.py", SOURCE, after, frozenset())
    assert (found.line, found.column) == (4, 5)
    inner = "import torch\n\n\ndef f(x):\n    return torch.relu(x)\n"
    (found,) = checks.undefined("x.py", inner, "def f(x):\n    return torch.relu(x)\n", frozenset())
    assert (found.line, found.column) == (5, 12)


def test_what_the_input_did_not_bind_either_is_its_own_affair() -> None:
    assert checks.undefined("x.py", "print(a)\n", "print(a)\n", frozenset()) == []
    (found,) = checks.undefined("x.py", "a = 1\nprint(a)\n", "print(a)\n", frozenset())
    assert (found.code, found.line, found.column) == ("MIG305", 2, 7)

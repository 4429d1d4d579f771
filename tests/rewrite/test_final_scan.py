"""The last look at an output: a name of torch's that is left, or one that nothing binds, is an error at its place."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from migrate import checks
from migrate.diagnostics import Severity
from migrate.files.source import parse
from migrate.pipeline import convert
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Call
from migrate.syntax import nodes

SOURCE = """import torch
from torch.utils.data import DataLoader, TensorDataset

rows = torch.square(torch.ones(4, 3))
loader = DataLoader(TensorDataset(rows), batch_size=2)
limit = 3
x = torch.ones(3)
if limit > 2:
    print(torch.square(x), limit)
"""


@pytest.mark.parametrize(
    ("left", "code", "place"),
    [("lost({input})", "MIG305", (9, 11)), ("torch.square({input})", "MIG304", (9, 11))],
)
def test_a_rule_that_leaves_a_name_is_noticed(
    left: str, code: str, place: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seeded mistake: a rule whose result names what the output does not have. What feeds the data loading is torch's
    on purpose."""

    def wrong(call: Call) -> nodes.Expr:
        return call.make(left)

    monkeypatch.setitem(RULES, "torch.square", replace(RULES["torch.square"], function=wrong))
    conversion = convert(parse("x.py", SOURCE))
    (found,) = conversion.report.diagnostics
    assert (found.code, found.severity, conversion.report.exit_code) == (code, Severity.ERROR, 1)
    assert "rows = torch.square(torch.ones(4, 3))" in conversion.text


def test_the_place_is_that_of_the_line() -> None:
    after = SOURCE.replace("import torch\n", "")
    (found,) = checks.undefined("x.py", SOURCE, after, frozenset())
    assert (found.line, found.column) == (4, 8)
    inner = "import torch\n\n\ndef f(x):\n    return torch.relu(x)\n"
    (found,) = checks.undefined("x.py", inner, "def f(x):\n    return torch.relu(x)\n", frozenset())
    assert (found.line, found.column) == (5, 12)


def test_what_the_input_did_not_bind_either_is_its_own_affair() -> None:
    assert checks.undefined("x.py", "print(a)\n", "print(a)\n", frozenset()) == []
    (found,) = checks.undefined("x.py", "a = 1\nprint(a)\n", "print(a)\n", frozenset())
    assert (found.code, found.line, found.column) == ("MIG305", 2, 7)


INSIDE = """\
import numpy as np


def score(x):
    import torch
    from torch import nn

    return nn.functional.relu(torch.from_numpy(np.abs(x)))


def loaded(x):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    for (row,) in DataLoader(TensorDataset(torch.as_tensor(x))):
        print(torch.relu(row))


def save(x, path):
    if path:
        import torch
        torch.save(torch.zeros(3), path)


def early(test):
    import torch
    if test:
        return
    print(torch.ones(2))
"""


def test_imports_inside_functions_go_with_what_they_bring() -> None:
    made = convert(parse("x.py", INSIDE))
    assert made.report.exit_code == 0, made.report.as_text()
    score, loaded, save, early = made.text.split("\ndef ")[1:]
    assert "import" not in score + save + early
    assert "from torch.utils.data import DataLoader, TensorDataset" in loaded
    assert "import flax.linen as nn\nimport jax.numpy as jnp\n" in made.text.partition("def ")[0]


def test_what_python_thinks_of_the_input_is_not_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = convert(
            parse("x.py", "import torch\n\nx = torch.zeros(2)\nif len(x) is 2:\n    print('\\d', x.sum())\n")
        )
    assert "is 2" in made.text

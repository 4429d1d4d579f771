"""Definitions that double each time a name is bound again: followed without end they would take for ever."""

from pathlib import Path

from migrate.files.source import load
from migrate.pipeline import convert

NAMES = 64  # 2 ** 64 terms, if every definition were written out

HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x0):
"""


def test_definitions_in_terms_of_names_that_are_bound_again(tmp_path: Path) -> None:
    chain = "".join(f"        x{n + 1} = x{n} + x{n}\n" for n in range(NAMES))
    again = "".join(f"        x{n} = self.first(x{NAMES})\n" for n in reversed(range(1, NAMES)))
    script = tmp_path / "net.py"
    script.write_text(HEAD + chain + again + f"        return x1 + x{NAMES}\n")
    conversion = convert(load(script))
    assert not conversion.report.diagnostics
    assert conversion.text.count(f"= self.first(x{NAMES})") == NAMES - 1

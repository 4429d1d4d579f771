"""Functions that a trainer calls back see the weights that it has by then, in both frameworks: the golden script."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parents[1] / "golden" / "callbacks"


def test_callbacks_see_trained_weights(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng():
        runpy.run_path(str(GOLDEN / "before.py"))
    theirs = capsys.readouterr().out.splitlines()
    runpy.run_path(str(GOLDEN / "after.py"))
    ours = capsys.readouterr().out.splitlines()
    assert [line.split()[:-1] for line in ours] == [line.split()[:-1] for line in theirs]
    values = [torch.tensor([float(line.split()[-1]) for line in lines]) for lines in (theirs, ours)]
    assert len(values[0]) == 4 and values[0].unique().numel() == 3  # each step changes the weights
    torch.testing.assert_close(values[1], values[0])

"""Notebooks in the place of scripts: the code of all cells runs as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parity.child import as_script
from parity.compare import compare_script

pytestmark = pytest.mark.usefixtures("runs_are_forked")

MLP = Path(__file__).parent / "scripts" / "mlp"


def notebook(path: Path, *sources: str) -> Path:
    cells = [
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for source in sources
    ]
    data = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_what_ipython_alone_reads_does_nothing(tmp_path: Path) -> None:
    made = as_script(str(notebook(tmp_path / "a.ipynb", "%matplotlib inline\nx = 1", "!pip install x\ny = x + 1")))
    names: dict[str, int] = {}
    exec(Path(made).read_text(encoding="utf-8"), names)
    assert names["y"] == 2
    assert as_script(str(tmp_path / "b.py")) == str(tmp_path / "b.py")


def test_a_notebook_and_its_rewrite(tmp_path: Path) -> None:
    theirs = (MLP / "train.py").read_text(encoding="utf-8")
    ours = (MLP / "train_jax.py").read_text(encoding="utf-8")
    (tmp_path / "out").mkdir()
    files = notebook(tmp_path / "a.ipynb", "%matplotlib inline", theirs), notebook(tmp_path / "out" / "a.ipynb", ours)
    result = compare_script(*files, MLP / "weights.json", steps=2, perturbed_runs=0, float64=False)
    assert result.exit_code == 0, (result.first_difference, result.errors)

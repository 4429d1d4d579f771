"""The registry of codes: what raises or reports a code is in it, and nothing in it is dead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import parity
from parity import codes, workdir
from parity.codes import CODES, ParityError

SOURCES = {path: path.read_text() for path in Path(parity.__file__).parent.glob("*.py") if path.name != "codes.py"}


def test_every_code_in_the_sources_is_explained_and_every_code_explained_is_used() -> None:
    used = {code for text in SOURCES.values() for code in re.findall(r"\bPAR\d{3}\b", text)}
    assert used == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_a_title_and_an_explanation(code: str) -> None:
    assert CODES[code].title and not CODES[code].title.endswith(".")
    assert CODES[code].explanation.endswith(".") and len(CODES[code].explanation) > 60


def test_exit_codes() -> None:
    assert {code for code in CODES if ParityError(code, "").exit_code == 1} == set(codes._DO_NOT_FIT)
    assert str(ParityError("PAR211", "what")) == "PAR211: what"


def test_only_one_file_holds_tolerances() -> None:
    """A number such as 1e-5 anywhere else would be one.

    But for the foot of a plot's axis, the epsilons of the models with mistakes, and what other projects publish.
    """
    others = ("report.py", "gate_page.py", "selftest.py", "selftest_models.py", "peers.py")
    for path, text in SOURCES.items():
        if path.name not in ("tolerance.py", *others):
            assert not re.findall(r"\b\d+(?:\.\d+)?e-\d+\b", re.sub(r'"""[\s\S]*?"""|#.*', "", text)), path.name


def test_a_folder_too_large_to_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    for i in range(5):
        (tmp_path / "project" / f"{i}.txt").write_text("x")
    monkeypatch.setattr(workdir, "MAX_FILES", 4)
    with pytest.raises(ParityError, match="PAR208"):
        workdir.copy_folder(tmp_path / "project", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_copy_leaves_out_environments_caches_and_itself(tmp_path: Path) -> None:
    for name in (".git/config", ".venv/x", "pkg/__pycache__/a.pyc", "pkg/a.py", "data/points.csv", "out/old"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    workdir.copy_folder(tmp_path, tmp_path / "out" / "run")
    copied = {str(path.relative_to(tmp_path / "out" / "run")) for path in (tmp_path / "out" / "run").rglob("*.*")}
    assert copied == {"pkg/a.py", "data/points.csv"}
    assert not (tmp_path / "out" / "run" / "out").exists()
